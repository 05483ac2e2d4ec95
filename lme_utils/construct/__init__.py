"""Making histories: from written sessions to instances in the official format."""
