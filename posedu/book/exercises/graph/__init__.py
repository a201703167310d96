"""Exercises on encodings of trees and graphs."""
