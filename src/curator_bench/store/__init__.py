"""The benchmark database: schema, migrations, recording, queries. The only SQL of the project is in this room.

Importing it imports SQLAlchemy, so callers import its modules where they first need them.
"""
