/**
 * What the provider was asked, held against what clients asked for: no call is made that no request wants, and each tells the model exactly
 * what its client says.
 *
 * A request carries a number in every word that it adds. The newest number in a prompt says whose call it is.
 *
 * Invariant: in one life of the gateway, a request's prompt is answered at most as often as there are answers to it that a client has asked for in
 * that life, and once more for each call that its provider broke off before text was shown for good (G2, G7, and no retry is paid twice).
 */
import { fail } from "../log-checks.ts";
import type { Asked } from "./reference-answers.ts";
import { canonical, canonicalPrompt, isWellFormed, markerOf, type SimBody } from "./messages.ts";
import type { ProviderCall } from "./provider.ts";

export class Account {
  readonly #bodies = new Map<number, SimBody>();
  /** By life and marker: the answers that are wanted. */
  readonly #wanted = new Map<string, Set<string>>();
  readonly #calls = new Map<string, number>();
  /** By life and marker: calls that broke, so that their step is tried again. */
  readonly #repeats = new Map<string, number>();
  #requests = 0;

  /** A client asks in this life; the returned function says which answer it got, or those of which it may have got one. */
  want(life: number, { body }: Pick<Asked, "body">): (...answers: readonly string[]) => void {
    this.#bodies.set(body.marker, body);
    const wanted = this.#wantedIn(life, body.marker);
    const request = `request ${++this.#requests}`;
    wanted.add(request);
    return (...answers) => {
      wanted.delete(request);
      for (const answer of answers) wanted.add(answer);
    };
  }

  /** The provider broke a call off, and nothing of it was shown that cannot be taken back: its step makes one more (G2). */
  mayRepeat({ life, call }: ProviderCall): void {
    const name = `${life} ${markerOf(call.messages)}`;
    this.#repeats.set(name, (this.#repeats.get(name) ?? 0) + 1);
  }

  /** The answers that are wanted, and the requests that have none yet. */
  #wantedIn(life: number, marker: number): Set<string> {
    const name = `${life} ${marker}`;
    const wanted = this.#wanted.get(name) ?? new Set<string>();
    this.#wanted.set(name, wanted);
    return wanted;
  }

  check({ life, call, model, generation }: ProviderCall): void {
    const marker = markerOf(call.messages);
    const name = `${life} ${marker}`;
    const calls = (this.#calls.get(name) ?? 0) + 1;
    this.#calls.set(name, calls);
    const wanted = this.#wantedIn(life, marker).size + (this.#repeats.get(name) ?? 0);
    if (calls > wanted)
      fail(
        "G7",
        `generation ${generation}: ${calls} calls in this life for a request of which ${wanted} answers are wanted`,
      );
    const body = this.#bodies.get(marker);
    if (body === undefined) return fail("G7", `generation ${generation} answers no request`);
    if (model !== body.model) fail("matching", `the request is for ${body.model}, and ${model} was asked`);
    if (call.system !== body.system) fail("matching", "the model was told another system prompt");
    const tools = call.tools.map((tool) => tool.name).toSorted();
    if (JSON.stringify(tools) !== JSON.stringify(body.tools.toSorted()))
      fail("matching", "the model was offered other tools");
    if (call.options?.maxOutputTokens !== marker)
      fail("matching", "the model was called with an earlier request's options");
    if (!isWellFormed(body.messages)) return;
    const [said, told] = [canonical(body.messages), canonicalPrompt(call.messages)];
    if (JSON.stringify(said) !== JSON.stringify(told))
      fail("matching", "the model was told another history than the client has");
  }
}
