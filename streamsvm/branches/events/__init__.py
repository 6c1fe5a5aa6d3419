"""Raw events: records of an application's own fields, which a recipe turns into points."""
