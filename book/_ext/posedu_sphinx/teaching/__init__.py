"""Material for teachers: slides made of the chapters' own parts, and course plans."""
