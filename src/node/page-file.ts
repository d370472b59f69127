/**
 * The page of this server: built when the package was packed, or, in a checkout, when it is first asked for.
 *
 * A checkout has the sources of the page and Vite, a package has neither. The build is a process of its own, keeps what it made under `node_modules/.cache`
 * by the hash of its sources, and prints where; so a page that did not change is built once.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliDecompress } from "node:zlib";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import type { PageFile } from "../server/http/index.ts";

/** What `npm run build` leaves beside this folder. */
const PACKED = join(import.meta.dirname, "../page/page.html.br");
/** Beside the page in a package; in a checkout beside its sources. */
const LANGUAGES = join(import.meta.dirname, "../page/languages.json");
const BUILD = join(import.meta.dirname, "../../scripts/page.ts");
const BUILD_MS = 120_000;

/** A build that failed is tried again after this long, however often the page is asked for. */
const RETRY_MS = 5_000;

/** Read once. */
export function pageFile(): () => Promise<PageFile> {
  let reading: Promise<PageFile> | undefined;
  return () =>
    (reading ??= read().catch((cause: unknown) => {
      setTimeout(() => (reading = undefined), RETRY_MS).unref();
      throw cause;
    }));
}

async function read(): Promise<PageFile> {
  const brotli = await readFile(existsSync(PACKED) ? PACKED : await built());
  return {
    brotli,
    html: await promisify(brotliDecompress)(brotli),
    languages: await readFile(LANGUAGES),
  };
}

async function built(): Promise<string> {
  if (!existsSync(BUILD))
    throw new HoldfastError("unavailable", "this package is not whole: install it again");
  try {
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, [BUILD], { timeout: BUILD_MS });
    return stdout.trim();
  } catch (cause) {
    const why = messageOf(cause);
    throw new HoldfastError("unavailable", `${why}\nRun \`npm ci\`, then load this page again.`, { cause });
  }
}
