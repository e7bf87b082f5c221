"""What is wrong on a host, how serious it is, and which command fixes it."""

from ttmem.doctor.document import document
from ttmem.doctor.examination import examine
from ttmem.doctor.finding import Finding, Level, worst

__all__ = ["Finding", "Level", "document", "examine", "worst"]
