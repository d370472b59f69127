/**
 * A model that says more than ten thousand things before it answers as another one does: step after step, in pieces that stay events of
 * their own, because words and thoughts take turns.
 */
import type { Model, ModelCall, ModelPart, Models } from "../../src/agent/index.ts";
import type { Environment } from "../../src/transport/environment.ts";

const STEPS = 18;
/** Of each kind; a step's message stays small enough for its event. */
const PAIRS = 300;
const PAUSE_MS = 2;
const USAGE = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

export function longAnswers(others: Models, env: Pick<Environment, "after" | "random">): Models {
  return {
    ...others,
    resolve: (...asked) => {
      const model = others.resolve(...asked);
      const long: Model = { ...model, call: (call) => answer(model, call, env) };
      return long;
    },
  };
}

async function* answer(
  model: Model,
  call: ModelCall,
  env: Pick<Environment, "after" | "random">,
): AsyncGenerator<ModelPart> {
  const said = call.messages.filter(({ role }) => role === "assistant").length;
  if (said >= STEPS || call.tools.length === 0) {
    for await (const part of model.call(call)) yield part;
    return;
  }
  for (let at = 0; at < PAIRS; at++) {
    const { promise, resolve } = Promise.withResolvers<void>();
    env.after(PAUSE_MS, resolve);
    await promise;
    call.signal.throwIfAborted();
    yield { kind: "thinking", text: "hm" };
    yield { kind: "thinking_end", metadata: {} };
    yield { kind: "text", text: `${at} ` };
  }
  const todos = { todos: [{ id: String(env.random()), text: "more", status: "pending" }] };
  yield { kind: "tool_call", toolCallId: "call_0", tool: "todo_write", args: JSON.stringify(todos) };
  yield { kind: "finish", reason: "tool_calls", usage: USAGE };
}
