"""Pages that account for claims: proof ledger, statements examined, status."""
