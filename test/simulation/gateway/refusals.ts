/** The refusals that the reference knows, as verdicts. */
export const KEY_REUSED = "refused idempotency_key_reused";
export const OTHER_ANSWER = "refused other_answer";
export const NOT_FOUND = "refused not_found";
export const STREAM_GONE = "refused stream_gone";
export const TOO_MANY = "refused open_streams_limit";
export const TOO_LARGE = "refused request_too_large";
