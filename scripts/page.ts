/**
 * Builds the page at `/` into one compressed file, script and style inside, and prints where it is: `node scripts/page.ts [directory]`.
 *
 * Without a directory it is kept under `node_modules/.cache`, named by the hash of everything that it is made of, and built only when it is not there.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { build, type Rolldown } from "vite";

const root = join(import.meta.dirname, "..");

/** Folders that the page is made of; more than it needs does no harm. */
const SOURCES =
  "src/{page,react,live,client,protocol,core,turn,sealing,transport,async,tools}/**/*.{ts,tsx,css,html}";

export async function buildPage(): Promise<string> {
  const result = await build({
    root: join(root, "src/page"),
    configFile: false,
    logLevel: "error",
    // The same hooks and elements in a tenth of the bytes (docs/decisions/0142-the-page.md).
    resolve: {
      alias: [
        { find: /^react$/, replacement: "preact/compat" },
        { find: /^react-dom\/client$/, replacement: "preact/compat/client" },
        { find: /^react\/jsx-runtime$/, replacement: "preact/jsx-runtime" },
      ],
    },
    define: { "process.env.NODE_ENV": '"production"' },
    oxc: { jsx: { runtime: "automatic" } },
    build: {
      write: false,
      target: "es2024",
      modulePreload: false,
      cssMinify: true,
      rolldownOptions: { output: { codeSplitting: false } },
    },
  });
  const outputs = Array.isArray(result) ? result : [result];
  const files = outputs.flatMap((one) => ("output" in one ? one.output : []));
  return inOneFile(files);
}

/** A script must not name its own end, and what stands for `$` in a replacement stays as it is. */
function inOneFile(files: readonly (Rolldown.OutputChunk | Rolldown.OutputAsset)[]): string {
  const assets = files.filter((file) => file.type === "asset");
  const html = String(assets.find(({ fileName }) => fileName === "index.html")?.source);
  const style = assets
    .filter(({ fileName }) => fileName.endsWith(".css"))
    .map(({ source }) => String(source));
  const script = files.flatMap((file) => (file.type === "chunk" ? [file.code] : []));
  if (script.length !== 1) throw new Error("the page is one script");
  const code = script.join("").replaceAll("</script", "<\\/script");
  return html
    .replace(/<script\b[^>]*><\/script>\s*/, "")
    .replace(/<link\b[^>]*rel="stylesheet"[^>]*>\s*/, () => `<style>${style.join("")}</style>`)
    .replace("</body>", () => `<script type="module">${code}</script></body>`);
}

function compressed(html: string): Uint8Array {
  const { BROTLI_PARAM_QUALITY, BROTLI_MAX_QUALITY } = constants;
  return brotliCompressSync(html, { params: { [BROTLI_PARAM_QUALITY]: BROTLI_MAX_QUALITY } });
}

/** In one piece: another process may be building the same. */
function put(path: string, bytes: Uint8Array): void {
  const beside = `${path}.${process.pid}`;
  try {
    writeFileSync(beside, bytes);
    renameSync(beside, path);
  } finally {
    rmSync(beside, { force: true });
  }
}

function hashOfSources(): string {
  const hash = createHash("sha256");
  for (const path of [...globSync(SOURCES, { cwd: root }).toSorted(), "scripts/page.ts", "package-lock.json"])
    hash
      .update(path)
      .update("\0")
      .update(readFileSync(join(root, path)))
      .update("\0");
  return hash.digest("hex").slice(0, 16);
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  const folder = directory ?? join(root, "node_modules/.cache/holdfast");
  const path = join(folder, directory === undefined ? `page-${hashOfSources()}.html.br` : "page.html.br");
  if (directory !== undefined || !existsSync(path)) {
    const page = compressed(await buildPage());
    mkdirSync(folder, { recursive: true });
    put(path, page);
    // Its code is in the page, and its package is not installed with ours.
    if (directory !== undefined) {
      put(join(folder, "LICENSE.preact.txt"), readFileSync(join(root, "node_modules/preact/LICENSE")));
      put(join(folder, "languages.json"), readFileSync(join(root, "src/page/languages.json")));
    }
  }
  process.stdout.write(`${path}\n`);
}
