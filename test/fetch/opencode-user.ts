/**
 * The real OpenCode as a client: one question, its bash tool, an answer, and nothing done about a break but what OpenCode does itself.
 *
 * It has no setting for a `fetch`. But `npm` of a provider in its `opencode.json` may be a file, so a module of four lines gives `holdfast/fetch` to the
 * provider package that it would have loaded otherwise.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { TestContext } from "node:test";
import { z } from "zod";
import { Opencode } from "../gateway/clients/opencode-binary.ts";
import { keptPort } from "../kept-port.ts";
import type { Said } from "./sdk-programs.ts";

const SOURCE = join(import.meta.dirname, "../../src/fetch/index.ts");

/** What the model is to call, and how its effect is counted. */
const LOOKED = "looked.txt";
export const BASH_LOOKS = {
  tool: "bash",
  args: { command: `echo ä >> ${LOOKED}; echo ein Haus`, description: "Looks at something" },
};

/** As users write it, but for where the packages are. */
const PROVIDER = `
  import { createOpenAICompatible } from ${JSON.stringify(import.meta.resolve("@ai-sdk/openai-compatible"))};
  import { holdfast } from ${JSON.stringify(SOURCE)};
  export const createHoldfast = (options) =>
    createOpenAICompatible({ ...options, fetch: holdfast({ baseURL: options.baseURL, fetch: options.fetch }) });
`;

/** Far longer than it tries again for; a hanging one must not hang the campaign. */
const ASK_MS = 120_000;

const SESSION = z.object({ id: z.string() });
const MESSAGE = z.object({
  info: z.object({ error: z.unknown().optional() }),
  parts: z.array(z.object({ type: z.string(), text: z.string().optional() })),
});

export interface OpencodeSettings {
  readonly binary: string;
  readonly baseURL: string;
  readonly apiKey: string;
  readonly model: string;
  readonly hasFetch: boolean;
}

export class OpencodeUser {
  readonly #url: string;
  readonly #looked: string;

  private constructor(url: string, looked: string) {
    this.#url = url;
    this.#looked = looked;
  }

  static async begin(t: TestContext, settings: OpencodeSettings): Promise<OpencodeUser> {
    const { hasFetch, model, ...rest } = settings;
    const home = mkdtempSync(join(tmpdir(), "holdfast-opencode-home-"));
    const file = join(home, "provider.mjs");
    writeFileSync(file, PROVIDER);
    const npm = hasFetch ? pathToFileURL(file).href : "@ai-sdk/openai-compatible";
    const models = { [model]: { limit: { context: 100_000, output: 8_000 } } };
    const gw = { npm, options: { apiKey: settings.apiKey }, models };
    const config = { provider: { gw }, model: `gw/${model}` };
    const opencode = new Opencode({ ...rest, home, model, config });
    // Its server goes before its home does.
    const url = await opencode.serve(t, await keptPort());
    t.after(() => rmSync(home, { recursive: true, force: true }));
    return new OpencodeUser(url, join(opencode.project, LOOKED));
  }

  async ask(question: string): Promise<Said> {
    rmSync(this.#looked, { force: true });
    // With a title of its own it asks for none.
    const { id } = SESSION.parse(await this.#post("/session", { title: question }));
    const said = await this.#post(`/session/${id}/message`, { parts: [{ type: "text", text: question }] });
    const { info, parts } = MESSAGE.parse(said);
    const looks = existsSync(this.#looked) ? readFileSync(this.#looked, "utf8").trim().split("\n").length : 0;
    if (info.error !== undefined) return { error: JSON.stringify(info.error), looks };
    return { said: parts.map(({ type, text = "" }) => (type === "text" ? text : "")).join(""), looks };
  }

  async #post(path: string, body: object): Promise<unknown> {
    const response = await fetch(`${this.#url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ASK_MS),
    });
    return response.json();
  }
}
