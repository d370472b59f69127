/** What a turn has told, in short. */
import assert from "node:assert/strict";
import type { AgentServerMessage, TurnEndedUpdate } from "../../src/protocol/messages.ts";

/** Neighbouring kinds, one word each. */
export function kindsOf(messages: readonly AgentServerMessage[]): readonly string[] {
  return messages.map(({ message }) => {
    switch (message.case) {
      case "interactionUpdate":
        return message.value.message.case ?? "nothing";
      case "kvServerMessage":
        return message.value.message.case === "setBlobArgs" ? "set" : "get";
      case "execServerMessage":
        return "exec";
      case "conversationCheckpointUpdate":
        return "checkpoint";
      default:
        return message.case ?? "nothing";
    }
  });
}

/** The text of the answer, with restarted steps rolled back as a client does. */
export function textOf(messages: readonly AgentServerMessage[]): string {
  const texts: { readonly eventId: number; readonly text: string }[] = [];
  for (const [at, { message }] of messages.entries()) {
    if (message.case !== "interactionUpdate") continue;
    const update = message.value.message;
    if (update.case === "textDelta") texts.push({ eventId: at + 1, text: update.value.text });
    if (update.case === "stepRestarted") {
      const rollbackTo = Number(update.value.rollbackToEventId);
      while ((texts.at(-1)?.eventId ?? 0) > rollbackTo) texts.pop();
    }
  }
  return texts.map(({ text }) => text).join("");
}

export function endOf(messages: readonly AgentServerMessage[]): TurnEndedUpdate {
  const ends = messages.flatMap(({ message }) =>
    message.case === "interactionUpdate" && message.value.message.case === "turnEnded"
      ? [message.value.message.value]
      : [],
  );
  assert.equal(ends.length, 1, "a turn ends once");
  const last = messages.at(-1)?.message;
  assert.ok(
    last?.case === "interactionUpdate" && last.value.message.case === "turnEnded",
    "and nothing comes after it",
  );
  const [end] = ends;
  assert.ok(end !== undefined);
  return end;
}
