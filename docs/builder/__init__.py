"""What makes the pages that nobody writes by hand, and what MkDocs needs to build the site."""
