"""Findings, facts that a reader of the draws must know: their records, and one module for each kind of evidence."""

from gadabout.findings.records import DIAGNOSTICS, MOST_NAMED, DiagnosticWarning, Finding, category, note

__all__ = ["DIAGNOSTICS", "MOST_NAMED", "DiagnosticWarning", "Finding", "category", "note"]
