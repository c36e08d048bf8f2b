"""What a reader of the draws must know: the records, and one module for each kind of evidence they come from."""

from gadabout.findings.records import DIAGNOSTICS, MOST_NAMED, DiagnosticWarning, Finding, category, note

__all__ = ["DIAGNOSTICS", "MOST_NAMED", "DiagnosticWarning", "Finding", "category", "note"]
