/**
 * A provider for browser tests that counts no further than it is let, so a test decides what is under way and never races with an answer.
 *
 * It is the provider of `holdfast demo --page` with the rehearsal model behind it: "count to 60" waits before each number that is not allowed yet.
 */
import assert from "node:assert/strict";
import type { Cleanup } from "../cleanup.ts";
import type { Model, ModelCall, ModelPart } from "../../src/agent/model.ts";
import { rehearsalModel } from "../../src/agent/models/index.ts";
import { STALL_CLOCKS } from "../../src/agent/models/upstream/stall-clocks.ts";
import { openProvider } from "../../src/cli/demo/provider.ts";
import { textOf } from "../../src/protocol/chat-message.ts";

export class HeldProvider {
  readonly #provider: Awaited<ReturnType<typeof openProvider>>;
  readonly #model: HeldModel;
  readonly #prefill: "fields" | "off";

  private constructor(
    provider: Awaited<ReturnType<typeof openProvider>>,
    model: HeldModel,
    prefill: "fields" | "off",
  ) {
    this.#provider = provider;
    this.#model = model;
    this.#prefill = prefill;
  }

  /** With `continues` it writes on behind what it has said; else it begins anew, whatever it is asked. */
  static async start(t: Cleanup, { continues = false } = {}): Promise<HeldProvider> {
    const model = new HeldModel(continues);
    const provider = await openProvider(model);
    t.after(() => provider.close());
    return new HeldProvider(provider, model, continues ? "fields" : "off");
  }

  /** It may count up to this number, in this answer and in all that follow. */
  allow(upTo: number): void {
    this.#model.allow(upTo);
  }

  /** Until no answer is under way: what was stopped has been stopped here too, and was not just given up for its silence. */
  async isLetGo(): Promise<void> {
    const deadline = performance.now() + STALL_CLOCKS.writingMs / 2;
    while (this.#model.underWay > 0) {
      assert.ok(performance.now() < deadline, `${this.#model.underWay} answers are under way`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** What a config file says of it. */
  get config(): object {
    const held = { type: "openai-compatible", baseURL: this.#provider.url, prefill: this.#prefill };
    // The page takes models of such a name for a rehearsal's.
    return { providers: { "rehearsal-held": held } };
  }

  /** The same, by the environment. */
  get env(): Readonly<Record<string, string>> {
    return { OLLAMA_HOST: new URL(this.#provider.url).origin };
  }
}

class HeldModel implements Model {
  readonly id = "held/rehearsal";
  readonly contextTokensMax = undefined;
  readonly #inner = rehearsalModel();
  readonly #continues: boolean;
  #allowed = Number.POSITIVE_INFINITY;
  #changed = Promise.withResolvers<void>();
  underWay = 0;

  constructor(continues: boolean) {
    this.#continues = continues;
  }

  allow(upTo: number): void {
    this.#allowed = upTo;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async *call(call: ModelCall): AsyncGenerator<ModelPart, void> {
    this.underWay++;
    try {
      yield* this.#said(call);
    } finally {
      this.underWay--;
    }
  }

  async *#said(call: ModelCall): AsyncGenerator<ModelPart, void> {
    const gone = new Promise<void>((resolve) => call.signal.addEventListener("abort", () => resolve()));
    const asked = call.messages.findLast(({ role }) => role === "user");
    const counts = asked !== undefined && textOf(asked).startsWith("count to");
    const { prefill = "", ...anew } = call;
    for await (const part of this.#inner.call(this.#continues ? { ...anew, prefill } : anew)) {
      const number = counts && part.kind === "text" ? Number(part.text) : 0;
      while (number > this.#allowed && !call.signal.aborted)
        await Promise.race([this.#changed.promise, gone]);
      if (call.signal.aborted) return;
      yield part;
    }
  }
}
