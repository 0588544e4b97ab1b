"""Pages: what people see of Assay. Reads across apps live in queries/; nothing here decides anything."""
