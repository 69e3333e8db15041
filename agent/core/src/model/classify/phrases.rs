//! What providers say, in lower case. Each phrase was seen in documentation or in public issues; the exchanges in
//! `tests/exchanges` name the places.

/// The conversation does not fit the model.
pub(super) const OVERFLOW: [&str; 26] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "reduce the length of",
    "range of input length",
    "exceeds the maximum number of tokens",
    "input token count",
    "exceeds the model's max",
    // Moonshot.
    "model token limit",
    // xAI.
    "maximum prompt length",
    // Hugging Face's server: "`inputs` tokens + `max_new_tokens` must be <= 4096".
    "`inputs` tokens",
    "`inputs` must have less than",
    // GitHub Models.
    "tokens_limit_reached",
    // Volcengine.
    "exceed max message tokens",
    // Zhipu.
    "prompt 超长",
    "prompt exceeds max length",
    // Groq, with status 413.
    "request too large for model",
    "reduce your message size",
    // SGLang.
    "maximum allowed length",
];

/// One request asks for more than a whole minute may hold.
pub(super) const TOO_LARGE_FOR_A_MINUTE: [&str; 2] = ["request too large for", "tokens must be reduced"];

/// The server could not read the model's words as a tool call: llama.cpp; Groq and its kin; Ollama.
pub(super) const GARBLED: [&str; 4] = [
    "model produced output that does not match",
    "tool_use_failed",
    "failed to call a function",
    "error parsing tool call",
];

pub(super) const CONTENT_REFUSED: [&str; 11] = [
    "content_filter",
    "content_policy_violation",
    "content management policy",
    "data_inspection_failed",
    "datainspectionfailed",
    "inappropriate content",
    "flagged by moderation",
    // OpenRouter: "requires moderation on … Your input was flagged for".
    "input was flagged",
    // Zhipu.
    "不安全或敏感内容",
    // Moonshot.
    "considered high risk",
    // OpenAI's reasoning models.
    "flagged as potentially violating",
];

/// No further request will be answered until somebody pays.
pub(super) const QUOTA: [&str; 19] = [
    "insufficient_quota",
    // DeepSeek, SiliconFlow, Moonshot.
    "insufficient balance",
    "balance is insufficient",
    "exceeded_current_quota",
    "insufficient_balance",
    "insufficient credit",
    // Anthropic, with status 400.
    "credit balance is too low",
    // OpenRouter, with status 402 or 403.
    "key limit exceeded",
    "billing_hard_limit",
    "billing_not_active",
    // DashScope.
    "arrearage",
    "freetieronly",
    "free tier of the model has been exhausted",
    // xAI.
    "used all available credits",
    "spending limit",
    // Hugging Face.
    "monthly included credits",
    // Volcengine.
    "overdue balance",
    "accountoverdue",
    // Zhipu.
    "余额不足",
];

/// Said of a quota by some, and of a limit a minute by others.
pub(super) const QUOTA_OR_LIMIT: [&str; 1] = ["exceeded your current quota"];

pub(super) const DAILY: [&str; 3] = ["perday", "per day", "daily"];

pub(super) const OVERLOAD: [&str; 7] = [
    "overloaded",
    "rate limit",
    "rate_limit",
    "too many requests",
    "resource_exhausted",
    "at capacity",
    "server is busy",
];
