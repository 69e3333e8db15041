//! The orchestrator around the agent loop.
