"""What installing needs: the target, the installer, the record, the cache, the SDK itself."""
