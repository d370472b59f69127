/**
 * A gateway behind a connection that is cut after so many bytes of a response, and the places where.
 *
 * As long as the gateway has something left to say, it knows that the answer did not arrive, and a retry comes back to it. What it has handed to the
 * system whole may be lost behind it, and only an Idempotency-Key can tell it that an identical request is a retry and no new question.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { behind, type Place } from "../cable.ts";
import { Notes } from "./note-tool.ts";
import { StagedNotes, type Stop } from "./staged-notes.ts";
import { StandingGateway } from "./standing-gateway.ts";

export interface Cuttable {
  readonly staged: StagedNotes;
  readonly gateway: StandingGateway;
  readonly notes: Notes;
  /** How often the model was called since this was asked for the last time. */
  readonly newCalls: () => number;
}

export async function beginCuttable(t: TestContext): Promise<Cuttable> {
  const staged = new StagedNotes();
  const provider = await staged.provider(t);
  const gateway = await StandingGateway.begin(t, { provider });
  const notes = new Notes(gateway.workspace);
  let counted = 0;
  const newCalls = (): number => {
    const before = counted;
    counted = provider.calls.length;
    return counted - before;
  };
  return { staged, gateway, notes, newCalls };
}

/** The response that comes next is cut. When the gateway knows, the rest of the answer may come, and who asks again gets through. */
export async function cutNext({ gateway }: Cuttable, place: Place, stop?: Stop): Promise<void> {
  await gateway.cable.cutNextAt(place);
  gateway.cable.hold();
  await gateway.isLeft();
  stop?.release();
  gateway.cable.letGo();
}

export interface Where {
  readonly name: string;
  /** Of the response to the user's message, or of the one to the tool's result. */
  readonly step: number;
  readonly place: Place;
}

export const IN_HEADERS: Place = () => 20;
export const BEHIND_CALLS = behind('"finish_reason":"tool_calls"');
const IN_ROLE = behind('"role":"assis');
const BEFORE_DONE = behind("data: [DONE]", -"data: [DONE]".length);

/** There is more to come: the provider is held behind a few words. */
export const UNDER_WAY: readonly Where[] = [
  { name: "in the headers", step: 0, place: IN_HEADERS },
  { name: "in the role chunk", step: 0, place: IN_ROLE },
  { name: "in the middle of a text", step: 0, place: behind("write") },
  { name: "in the headers behind the result", step: 1, place: IN_HEADERS },
  { name: "in the role chunk behind the result", step: 1, place: IN_ROLE },
  { name: "in the middle of the text behind the result", step: 1, place: behind("written") },
];

/** The last piece of an answer leaves at once: tool calls, finish, `[DONE]`. */
export const HANDED_OVER: readonly Where[] = [
  { name: "in the tool calls", step: 0, place: behind('"arguments":"{') },
  { name: "behind the finish of the tool calls", step: 0, place: BEHIND_CALLS },
  { name: "before [DONE] of the tool calls", step: 0, place: BEFORE_DONE },
  { name: "behind the finish", step: 1, place: behind('"finish_reason":"stop"') },
  { name: "before [DONE]", step: 1, place: BEFORE_DONE },
];

/** As clients have it that asked several things at once before: connections that are kept, and may serve the next request. */
async function openSeveral({ baseURL, apiKey }: StandingGateway): Promise<void> {
  const ask = () => fetch(`${baseURL}/models`, { headers: { authorization: `Bearer ${apiKey}` } });
  await Promise.all([ask(), ask(), ask()].map(async (response) => (await response).text()));
}

/** What a client makes of it when the first response is cut, or the one behind the tool. */
export async function cutIn(
  cuttable: Cuttable,
  { step, place }: Where,
  { converse, stop }: { readonly converse: () => Promise<string>; readonly stop?: Stop | undefined },
): Promise<string> {
  await openSeveral(cuttable.gateway);
  const tool = step === 0 ? undefined : cuttable.staged.holdTool();
  const early = tool === undefined ? cutNext(cuttable, place, stop) : undefined;
  const text = converse();
  await tool?.reached(text);
  const cut = early ?? cutNext(cuttable, place, stop);
  tool?.release();
  await Promise.race([cut, text.then(() => assert.fail("nothing was cut"))]);
  return text;
}
