"""Tests of the branches, a folder for each, and of the trunk without them."""
