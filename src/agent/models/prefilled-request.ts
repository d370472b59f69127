/**
 * A request whose answer begins with a given text, in the form that its model understands.
 */
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { type Dialect, NAMESPACES } from "./dialect.ts";
import type { PrefillForm } from "./prefill.ts";

/** The request, with the beginning of the answer behind the conversation. */
export function withPrefill(
  request: LanguageModelV4CallOptions,
  text: string,
  form: PrefillForm,
  dialect: Dialect,
): LanguageModelV4CallOptions {
  const marked = form === "prefix" ? { providerOptions: { openaiCompatible: { prefix: true } } } : {};
  const prompt: LanguageModelV4CallOptions["prompt"] = [
    ...request.prompt,
    { role: "assistant", content: [{ type: "text", text }], ...marked },
  ];
  if (form !== "fields") return { ...request, prompt };
  const namespace = NAMESPACES[dialect];
  const fields = { continue_final_message: true, add_generation_prompt: false };
  const own = { ...request.providerOptions?.[namespace], ...fields };
  return { ...request, prompt, providerOptions: { ...request.providerOptions, [namespace]: own } };
}
