"""From the bytes of a record, or a file, to rows: formats, bounds, rejections, and records of scores."""
