//! Containers that run commands for an agent.
