/**
 * The stages of a conversation with a tool at which a gateway can be killed, and what that may cost.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Notes } from "./note-tool.ts";
import { type Stop, StagedNotes, WRITTEN } from "./staged-notes.ts";
import { StandingGateway } from "./standing-gateway.ts";

interface Stage {
  readonly name: string;
  readonly hold: (staged: StagedNotes) => Stop;
  /** The turn has called its tools by then. */
  readonly isInTurn?: boolean;
  /** What has been said by then of the answer that is under way. */
  readonly words?: string;
  /** Model calls that the kill costs: the one that it interrupts. */
  readonly callsMore: number;
}

const STAGES: readonly Stage[] = [
  { name: "before the first token", hold: (staged) => staged.holdProvider(0, 0), callsMore: 1 },
  {
    name: "in the middle of a text",
    hold: (staged) => staged.holdProvider(0, 3),
    callsMore: 1,
    words: "I write",
  },
  {
    name: "between the tool calls and their results",
    hold: (staged) => staged.holdTool(),
    isInTurn: true,
    callsMore: 0,
  },
  {
    name: "before the first token behind the results",
    hold: (staged) => staged.holdProvider(1, 0),
    isInTurn: true,
    callsMore: 1,
  },
  {
    name: "in the middle of the text behind the results",
    hold: (staged) => staged.holdProvider(1, 4),
    isInTurn: true,
    callsMore: 1,
    words: "It is",
  },
];

export interface Killing {
  readonly gateway: StandingGateway;
  readonly notes: Notes;
  readonly staged: StagedNotes;
  /** For a client that is told an answer while it comes: another piece of it. */
  readonly onText: (text: string) => void;
}

/** What a client makes of one user message, with everything that it and its application do about a broken answer. */
export type Converse = (killing: Killing, asked: string) => Promise<string>;

export async function killAtEachStage(
  t: TestContext,
  { isStreamed }: { readonly isStreamed: boolean },
  converse: Converse,
): Promise<void> {
  const staged = new StagedNotes();
  const provider = await staged.provider(t);
  const gateway = await StandingGateway.begin(t, { provider });
  const notes = new Notes(gateway.workspace);
  for (const [at, { name, hold, isInTurn = false, words, callsMore }] of STAGES.entries()) {
    await t.test(`killed ${name}`, async () => {
      const callsBefore = provider.calls.length;
      const stop = hold(staged);
      const heard = new Heard(isStreamed ? words : undefined);
      const file = `notes-${at}.txt`;
      const answer = converse({ gateway, notes, staged, onText: (text) => heard.add(text) }, file);
      await stop.reached(answer);
      await Promise.race([heard.enough, answer]);
      await gateway.crash();
      stop.release();
      assert.equal(await answer, WRITTEN);
      assert.deepEqual(notes.linesOf(file), ["one"], "the tool ran once");
      assert.equal(provider.calls.length - callsBefore, 2 + callsMore, "calls of the model");
      // What was not durable when the gateway died begins anew; a turn that has called its tools goes on.
      const anew = Object.keys(await gateway.answers()).filter((how) => how.startsWith("fresh"));
      if (isInTurn) assert.deepEqual(anew, []);
    });
  }
}

/** What a client was told, until it has heard what is waited for. */
class Heard {
  readonly #words: string | undefined;
  readonly #enough = Promise.withResolvers<void>();
  #text = "";

  constructor(words: string | undefined) {
    this.#words = words;
    this.add("");
  }

  get enough(): Promise<void> {
    return this.#enough.promise;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#words === undefined || this.#text.includes(this.#words)) this.#enough.resolve();
  }
}
