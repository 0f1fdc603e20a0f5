"""Reports of `strop env check`, which authors send about versions that they published."""
