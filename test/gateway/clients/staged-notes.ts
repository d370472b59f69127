/**
 * A conversation that can be stopped at each of its stages: words, a tool, its result, the answer.
 *
 * The user names a file. The model says that it writes and calls the tool; when it has the result it says that it is written. The provider
 * can be held in the middle of a step, and the tool while it runs: what it does is then on the disk already.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { type Act, events, type Fields, inTwo } from "../../agent/models/providers/server.ts";
import { openaiEvents, type Said } from "../../agent/models/providers/formats.ts";
import { openaiProvider, type ScriptedProvider, textOf } from "../../agent/models/providers/scripted.ts";
import type { NoteArgs, Notes } from "./note-tool.ts";

export const WRITTEN = "It is written, as you said.";

function saidTo(messages: readonly Fields[]): { readonly step: number; readonly said: Said } {
  const asking = messages.findLastIndex(({ role }) => role === "user");
  const file = textOf(messages[asking]);
  const step = messages.slice(asking).filter(({ role }) => role === "assistant").length;
  const call = { name: "note", args: { file, text: "one" } };
  return { step, said: step === 0 ? { text: "I write it down.", calls: [call] } : { text: WRITTEN } };
}

/** Where somebody waits until the test lets them go on. */
export class Stop {
  readonly #reached = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<void>();

  /** For who is held. */
  async pass(): Promise<void> {
    this.#reached.resolve();
    await this.#released.promise;
  }

  release(): void {
    this.#released.resolve();
  }

  /** Until somebody is held here; what goes on meanwhile cannot be over before. */
  async reached(meanwhile: Promise<unknown>): Promise<void> {
    const isOver = meanwhile.then(() => assert.fail("it was over before it came here"));
    await Promise.race([this.#reached.promise, isOver]);
  }
}

interface ProviderStop {
  readonly step: number;
  /** So much of the answer has been sent: 1 the role, 2 a word ...; 0: not even its head. */
  readonly pieces: number;
  readonly stop: Stop;
}

export class StagedNotes {
  #providerStop: ProviderStop | undefined;
  #toolStop: Stop | undefined;

  provider(t: TestContext): Promise<ScriptedProvider> {
    return openaiProvider(t, (messages) => this.#answer(messages));
  }

  /** The provider stops there, once. */
  holdProvider(step: number, pieces: number): Stop {
    const stop = new Stop();
    this.#providerStop = { step, pieces, stop };
    return stop;
  }

  /** The tool stops when it has written, once. */
  holdTool(): Stop {
    this.#toolStop = new Stop();
    return this.#toolStop;
  }

  /** The tool, with the notes that it keeps. */
  tool(notes: Notes): (args: NoteArgs) => Promise<string> {
    return async (args) => {
      const result = notes.add(args);
      const stop = this.#toolStop;
      this.#toolStop = undefined;
      await stop?.pass();
      return result;
    };
  }

  #answer(messages: readonly Fields[]): Act {
    const { step, said } = saidTo(messages);
    const pieces = openaiEvents(said);
    const held = this.#providerStop;
    if (held?.step !== step) return events(...pieces);
    this.#providerStop = undefined;
    return inTwo(pieces.slice(0, held.pieces), () => held.stop.pass(), pieces.slice(held.pieces));
  }
}
