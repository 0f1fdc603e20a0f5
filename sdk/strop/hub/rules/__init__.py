"""The rules about archives, one file a format, that author and hub apply alike."""
