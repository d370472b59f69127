/**
 * What the demo's client process tells the demo, one JSON line at a time: what it heard, what it ran, how its stream is.
 *
 * A line that was written is in the pipe, also when its writer is killed a moment later; so this is what a person in
 * front of that client had seen.
 */
import * as z from "zod/mini";
import type { AgentServerMessage } from "../../protocol/messages.ts";
import { encodeServer } from "../../turn/messages.ts";
import type { TurnView } from "../../turn/view.ts";

const NEWS = z.discriminatedUnion("kind", [
  /** It follows the turn now: the stream's name, from which event on, and what of the step under way it remembers. */
  z.object({ kind: z.literal("follows"), name: z.string(), cursor: z.number(), stepText: z.string() }),
  z.object({ kind: z.literal("state"), state: z.string(), why: z.string() }),
  z.object({ kind: z.literal("heard"), eventId: z.number(), body: z.string() }),
  z.object({ kind: z.literal("runs"), execId: z.string(), tool: z.string(), about: z.string() }),
  z.object({ kind: z.literal("ran"), execId: z.string() }),
  /** The turn is over, and everything of it is kept; `texts` is what stands on its screen, by step. */
  z.object({ kind: z.literal("over"), reason: z.string(), texts: z.array(z.string()) }),
]);

export type News = z.output<typeof NEWS>;

export function readNews(line: string): News {
  return z.parse(NEWS, JSON.parse(line));
}

/** An event's body as text: the same for what a client heard and for what stands in the log, when they are the same. */
export function bodyOf(message: AgentServerMessage): string {
  return Buffer.from(encodeServer(message)).toString("base64");
}

/** What the agent said in each step, without what was taken back. */
export function textsOf({ parts }: TurnView): string[] {
  const texts: string[] = [];
  for (const part of parts) {
    if (part.type === "text") texts[part.step] = (texts[part.step] ?? "") + part.text;
  }
  return Array.from(texts, (text) => text ?? "");
}
