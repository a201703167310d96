"""Test a kernel against the reference: hard cases, bounds and known mutants."""
