//! The MCP servers that ship with gaia.
