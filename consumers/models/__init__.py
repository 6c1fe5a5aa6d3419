"""What people do with published versions: list, compare and export them, name them, pin them, retire them."""
