/**
 * Signed thoughts in chat completions: `reasoning_details`, as OpenRouter has it. A client that sends its messages back as it got them sends these too.
 */
import type { Fields } from "./fields.ts";
import type { LineThought } from "./line.ts";

export interface ReasoningDetail {
  readonly type: "reasoning.encrypted";
  readonly data: string;
  readonly format: "holdfast-v1";
}

export function reasoningDetail(token: string): ReasoningDetail {
  return { type: "reasoning.encrypted", data: token, format: "holdfast-v1" };
}

/** Those of other servers are tokens that nothing opens. */
export function thoughtsOf(message: Fields): { readonly thoughts?: readonly LineThought[] } {
  if (!Array.isArray(message.raw("reasoning_details"))) return {};
  const thoughts = (message.objects("reasoning_details") ?? []).flatMap((detail) => {
    const token = detail.raw("data") ?? detail.raw("signature");
    return typeof token === "string" ? [{ token, at: 0 }] : [];
  });
  return thoughts.length === 0 ? {} : { thoughts };
}
