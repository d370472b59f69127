/**
 * The page at `/` as a person has it: `holdfast serve` in a process of its own, opened by the link that it prints, in a real Chromium under its own policy.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { Cli, type Running } from "../cli/cli-process.ts";
import { bundle } from "./bundle.ts";
import { browser } from "./chromium.ts";
import type { HeldProvider } from "./held-provider.ts";
import { PATIENCE_MS, shownText } from "./waiting.ts";

const HOME_KEY = { HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url") };

export class PageServer {
  readonly #cli: Cli;
  readonly #flags: readonly string[];
  #running: Running;

  private constructor(cli: Cli, flags: readonly string[], running: Running) {
    this.#cli = cli;
    this.#flags = flags;
    this.#running = running;
  }

  /** Without a provider the rehearsal model answers. */
  static async start(t: TestContext, provider?: HeldProvider, more: object = {}): Promise<PageServer> {
    // It lives for as long as all the tests that use it.
    const cli = new Cli(t, { patienceMs: 10 * PATIENCE_MS });
    const path = join(cli.home, "page.config.json");
    writeFileSync(path, JSON.stringify({ ...provider?.config, ...more }));
    const flags = ["--config", path];
    return new PageServer(cli, flags, await cli.serve(flags, HOME_KEY));
  }

  get url(): string {
    return `${this.#running.url}/`;
  }

  get apiKey(): string {
    return this.#running.apiKey;
  }

  get pid(): number {
    return this.#running.pid;
  }

  /** What it says as `page`. */
  get link(): string {
    return /^ {2}page +(\S+)$/m.exec(this.#running.stdout())?.[1] ?? "";
  }

  /** Of all streams. */
  async eventsCommitted(): Promise<number> {
    const metrics = await (await fetch(`${this.#running.url}/metrics`)).text();
    return Number(/^holdfast_events_committed_total (\d+)$/m.exec(metrics)?.[1]);
  }

  /** Everything that it has written. */
  get said(): string {
    return this.#running.stdout() + this.#running.stderr();
  }

  /** `holdfast` with these arguments, in the server's data directory. */
  async run(...args: readonly string[]): Promise<void> {
    assert.equal((await this.#cli.run([...args, ...this.#cli.inDataDir])).code, 0);
  }

  signal(signal: NodeJS.Signals): void {
    this.#running.signal(signal);
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    this.#running.signal("SIGKILL");
    await this.#running.exit;
  }

  /** It is asked to stop in order, and killed while it does. */
  async killWhileItStops(): Promise<void> {
    this.#running.signal("SIGTERM");
    await this.kill();
  }

  /** On the port that it had. */
  async startAgain(): Promise<void> {
    const { port } = new URL(this.#running.url);
    this.#running = await this.#cli.serve(["--port", port, ...this.#flags], HOME_KEY);
  }
}

/** Every text that an answer ever was, with its question, and everything that was struck through, since the page was loaded. */
const WATCH = `
globalThis.seen = [];
globalThis.struck = [];
new MutationObserver(() => {
  const last = [...document.querySelectorAll("article")].at(-1);
  const text = [...(last?.querySelectorAll(".markdown") ?? [])].map((one) => one.textContent).join("");
  const question = last?.querySelector(".said p")?.textContent ?? "";
  if (globalThis.seen.at(-1)?.text !== text) globalThis.seen.push({ question, text });
  for (const gone of document.querySelectorAll(".answer > .gone")) globalThis.struck.push(gone.textContent);
}).observe(document, { subtree: true, childList: true, characterData: true });
`;

let loggedBundle: Promise<string> | undefined;

/** See `page/logged.ts`. */
function loggedScript(): Promise<string> {
  loggedBundle ??= bundle("logged.ts");
  return loggedBundle;
}

/** What the browser writes where the page's policy has refused something. */
const REFUSAL = /Content Security Policy|Trusted ?(?:Type|HTML|Script)/i;

/** A profile of its own, under the page's own policy. What the page throws, and what its policy refuses, fails the test. */
export async function visitor(t: TestContext, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await (await browser()).newContext(options);
  const faults: string[] = [];
  context.on("weberror", (thrown) => faults.push(String(thrown.error())));
  context.on("console", (said) => {
    if (REFUSAL.test(said.text())) faults.push(said.text());
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(faults, []);
  });
  await context.addInitScript({ content: WATCH });
  await context.addInitScript({ content: await loggedScript() });
  return context;
}

/** A tab with the page, as a person uses it. */
export class Tab {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
    page.setDefaultTimeout(PATIENCE_MS);
  }

  static async open(context: BrowserContext, url: string): Promise<Tab> {
    const page = await context.newPage();
    const tab = new Tab(page);
    await page.goto(url);
    return tab;
  }

  /** Signed in, and ready to be written in. */
  async isReady(): Promise<void> {
    await this.page.getByLabel("Message", { exact: true }).waitFor();
  }

  /** Says it, and waits until it stands there: the answer before is not its answer. */
  async say(text: string): Promise<void> {
    const last = this.page.locator("article").last();
    // Of many turns only some are drawn.
    const before = (await last.count()) === 0 ? 0 : Number(await last.getAttribute("aria-posinset"));
    await this.page.getByLabel("Message", { exact: true }).fill(text);
    await this.page.keyboard.press("Enter");
    await this.page.locator(`article[aria-posinset="${before + 1}"]`).waitFor();
  }

  async begin(): Promise<void> {
    await this.page.keyboard.press("Alt+KeyN");
    await this.page.getByText("Answers that stay").waitFor();
  }

  async press(name: string | RegExp): Promise<void> {
    await this.page.getByRole("button", { name }).first().click();
  }

  /** The text of the last answer. */
  async answer(): Promise<string> {
    const said = await this.page.locator("article").last().locator(".markdown").allTextContents();
    return said.join("");
  }

  /** The name of the last answer's stream. */
  async stream(): Promise<string> {
    return (await this.page.locator("article").last().getAttribute("data-turn")) ?? "";
  }

  /** The text that the server's log of this stream has. */
  logged(stream: string): Promise<string> {
    return this.page.evaluate<string>(`logged(${JSON.stringify(stream)})`);
  }

  answers(isIt: (answer: string) => boolean, what: string): Promise<string> {
    return shownText(() => this.answer(), isIt, what);
  }

  /** The word of the status line. */
  async is(word: string | RegExp): Promise<void> {
    await this.page.getByRole("status").filter({ hasText: word }).waitFor();
  }

  /** Until this text has been struck through. */
  async hasStruck(text: string): Promise<void> {
    const read = async (): Promise<string> => {
      const struck = await this.page.evaluate<readonly string[]>("globalThis.struck");
      return struck.find((one) => one === text) ?? "";
    };
    await shownText(read, (found) => found === text, `"${text}" is struck through`);
  }

  /** Every text that was ever shown as the answer to this question is the beginning of this one. */
  async sawOnly(asked: string, whole: string): Promise<void> {
    const seen =
      await this.page.evaluate<readonly { readonly question: string; readonly text: string }[]>(
        "globalThis.seen",
      );
    const texts = seen.filter(({ question }) => question === asked).map(({ text }) => text);
    assert.ok(texts.includes(whole));
    assert.deepEqual(
      texts.filter((text) => !whole.startsWith(text)),
      [],
    );
  }
}

/** What the rehearsal model says to `count to N`. */
export function counted(to: number): string {
  return Array.from({ length: to }, (_, at) => `${at + 1} `).join("");
}
