/**
 * A provider that counts what it is asked, for nodes that must not ask it twice.
 *
 * It calls the tool `echo`, or `bash` where there is one, for a message that asks for it, repeats a tool's result, and otherwise counts to ten. In the middle it waits as long as it is held.
 */
import type { ServerResponse } from "node:http";
import {
  type Asked,
  begin,
  type Fields,
  frameText,
  listOf,
  ProviderServer,
} from "../agent/models/providers/server.ts";
import { toolsOf } from "../agent/models/providers/scripted.ts";
import type { Cleanup } from "../cleanup.ts";

export const MODEL = "local/counted";

const ECHO = { name: "echo", arguments: '{"text":"hi"}' };

export class CountedProvider {
  #server: ProviderServer | undefined;
  #gate: Promise<void> = Promise.resolve();
  #open = (): void => undefined;
  /** The arguments of the tool `bash`, which is called where it is offered. */
  command = "{}";

  static async start(t: Cleanup): Promise<CountedProvider> {
    const provider = new CountedProvider();
    provider.#server = await ProviderServer.start(t, (...given) => provider.answer(...given));
    return provider;
  }

  /** What a node's configuration says of it. */
  get settings(): object {
    const local = {
      type: "openai-compatible",
      baseURL: `${this.#server?.origin}/v1`,
      apiKeyEnv: "LOCAL_KEY",
    };
    return { providers: { local }, models: { offered: [MODEL] } };
  }

  get env(): Readonly<Record<string, string>> {
    return { LOCAL_KEY: "of-the-provider" };
  }

  /** The requests whose last message has these words. */
  calls(words: string): number {
    return this.#askedFor(words).length;
  }

  /** Who said something before the latest of these requests, and what. */
  told(words: string): readonly string[] {
    const messages = listOf(this.#askedFor(words).at(-1)?.body["messages"]);
    return messages.map(({ role, content }) => `${String(role)}: ${JSON.stringify(content)}`);
  }

  #askedFor(words: string): readonly Asked[] {
    const { asked = [] } = this.#server ?? {};
    return asked.filter(({ body }) => {
      const last = listOf(body["messages"]).at(-1);
      return JSON.stringify(last?.["content"] ?? "").includes(words);
    });
  }

  /** From now on answers stop in their middle, until they are let go. */
  hold(): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    [this.#gate, this.#open] = [promise, resolve];
  }

  release(): void {
    this.#open();
  }

  async answer(response: ServerResponse, asked: Asked): Promise<void> {
    const { body, path } = asked;
    if (path.endsWith("/models")) {
      response.setHeader("content-type", "application/json").end('{"object":"list","data":[]}');
      return;
    }
    const last = listOf(body["messages"]).at(-1) ?? {};
    const tools = toolsOf(asked);
    const say = (delta: Fields, finish: string | null = null): void =>
      void response.write(frameText(chunk(delta, finish)));
    begin(response);
    const content = JSON.stringify(last["content"] ?? "");
    if (last["role"] === "tool") {
      say({ role: "assistant", content: "The tool " });
      await this.#gate;
      say({ content: `said ${content}.` });
      say({}, "stop");
    } else if (content.includes("use the tool") && tools.length > 0) {
      const called = tools.includes("bash") ? { name: "bash", arguments: this.command } : ECHO;
      const call = { index: 0, id: "call_1", type: "function", function: called };
      say({ role: "assistant", tool_calls: [call] });
      say({}, "tool_calls");
    } else {
      say({ role: "assistant", content: "1 2 3 4 5 " });
      await this.#gate;
      say({ content: "6 7 8 9 10" });
      say({}, "stop");
    }
    response.end("data: [DONE]\n\n");
  }
}

function chunk(delta: Fields, finish_reason: string | null): Fields {
  const choices = [{ index: 0, delta, finish_reason }];
  return { id: "c", object: "chat.completion.chunk", created: 1, model: "counted", choices };
}
