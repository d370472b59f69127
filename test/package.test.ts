/**
 * The package as somebody gets it who installs it: packed, unpacked into an empty project, imported
 * and type-checked through every entry point, once as Node sees it and once as a browser does.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { BUNDLED } from "../scripts/bundled.ts";
import { blocks } from "./docs/blocks.ts";
import { linksOf } from "./docs/markdown.ts";
import { field, fieldsOf, parseManifest } from "./tidy/repository.ts";

const root = join(import.meta.dirname, "..");
const installed = join(root, "node_modules");
const manifestText = readFileSync(join(root, "package.json"), "utf8");
const packMs = 120_000;

/** Entry points that need Node. All others must work in a browser. */
const nodeOnly = new Set(["holdfast", "holdfast/client", "holdfast/server", "holdfast/tools"]);

const entries = entryPoints();
const names = entries.map(({ name }) => name);
/** For programs that have React or the AI SDK. */
const peered = ["holdfast/react", "holdfast/ai-sdk"];
const own = names.filter((name) => !peered.includes(name));
const browserNames = own.filter((name) => !nodeOnly.has(name));

let work: string;

/** An entry point as package.json names it, its files relative to the package. */
interface Entry {
  readonly name: string;
  readonly types: string;
  readonly code: string;
}

before(
  async () => {
    work = mkdtempSync(join(tmpdir(), "holdfast-package-"));
    // `npm pack` builds first: prepack is `npm run build`.
    await run("npm", ["pack", "--silent", "--pack-destination", work], root);
    const tarball = readdirSync(work).find((file) => file.endsWith(".tgz"));
    assert.ok(tarball !== undefined, "npm pack made no tarball");
    await run("tar", ["-xzf", tarball], work);
  },
  { timeout: packMs },
);

after(() => {
  rmSync(work, { recursive: true, force: true });
});

test("the tarball holds what package.json promises, and neither tests nor sources", () => {
  const files = readdirSync(join(work, "package"), { recursive: true, encoding: "utf8" });
  assert.ok(entries.length > 0);
  for (const { name, types, code } of entries) {
    assert.ok(files.includes(types), `${name} has no ${types}`);
    assert.ok(files.includes(code), `${name} has no ${code}`);
  }
  assert.ok(files.includes("LICENSE") && files.includes("README.md"));
  for (const name of ["page.html.br", "languages.json", "LICENSE.preact.txt"])
    assert.ok(files.includes(`dist/page/${name}`), name);
  assert.deepEqual(
    files.filter((file) => /(?:^|\/)tests?(?:\/|\.)|^(?!examples\/).*(?<!\.d)\.ts$/.test(file)),
    [],
  );
});

test("links of the README and the documents lead somewhere in the package too", () => {
  const within = join(work, "package");
  const documents = ["README.md", ...readdirSync(join(within, "docs")).map((name) => `docs/${name}`)];
  for (const path of documents.filter((name) => name.endsWith(".md"))) {
    for (const link of linksOf(readFileSync(join(within, path), "utf8")))
      assert.ok(existsSync(join(within, dirname(path), link)), `${path} links to ${link}`);
  }
});

/** What a first install may take; it was 65 MB and 140 packages. */
const INSTALL_BYTES_MAX = 40 * 1024 * 1024;
const PACKAGES_MAX = 40;

test("an install is small, and what is bundled in it is whole, with its licences", async () => {
  const consumer = makeConsumer("weighed", []);
  const modules = join(consumer, "node_modules");
  const files = readdirSync(modules, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  // As a disk counts: by blocks.
  const bytes = files
    .map(({ parentPath, name }) => Math.ceil(statSync(join(parentPath, name)).size / 4096) * 4096)
    .reduce((sum, size) => sum + size, 0);
  assert.ok(bytes <= INSTALL_BYTES_MAX, `${Math.ceil(bytes / 2 ** 20)} MiB`);
  assert.ok(withTheirOwn(Object.keys(parseManifest(manifestText).dependencies)).size <= PACKAGES_MAX);

  const vendor = join(modules, "holdfast/dist/vendor");
  const licences = readFileSync(join(vendor, "LICENSES.txt"), "utf8");
  for (const name of BUNDLED) assert.match(licences, new RegExp(`^${name} \\d`, "m"));
  const made = ["ai-sdk-anthropic", "ai-sdk-google", "ai-sdk-openai", "ai-sdk-openai-compatible"];
  const mcp = "modelcontextprotocol-sdk-client";
  const program = [...made, `${mcp}-index`, `${mcp}-stdio`, `${mcp}-streamableHttp`].map(
    (name) => `console.log(Object.keys(await import(${JSON.stringify(join(vendor, `${name}.js`))})).join());`,
  );
  // The page comes out of the package, where there is nothing to build it with.
  const page = JSON.stringify(join(modules, "holdfast/dist/node/page-file.js"));
  program.push(`console.log(String((await (await import(${page})).pageFile()()).html).slice(0, 15));`);
  writeFileSync(join(consumer, "main.js"), program.join("\n"));
  const said = await run(process.execPath, ["main.js"], consumer);
  assert.match(said, /^<!doctype html>$/m);
  for (const name of [
    "createAnthropic",
    "createGoogleGenerativeAI",
    "createOpenAI",
    "createOpenAICompatible",
  ]) {
    assert.ok(said.includes(name), name);
  }
  assert.match(said, /\bClient\b[^]*StdioClientTransport[^]*StreamableHTTPClientTransport/);
});

test("every entry point can be imported", async () => {
  const consumer = makeConsumer("runtime", ["react"]);
  writeFileSync(
    join(consumer, "main.js"),
    names.map((name) => `console.log(Object.keys(await import("${name}")).length);`).join("\n"),
  );
  const counts = (await run(process.execPath, ["main.js"], consumer)).trim().split("\n").map(Number);
  assert.equal(counts.length, names.length);
  assert.ok(
    counts.some((count) => count > 0),
    "no entry point exports anything",
  );
});

test("the fifteen lines of the README run and type-check in a project that has installed the package", async () => {
  const consumer = makeConsumer("program", ["@types/node", "undici-types"]);
  const program = blocks.find(({ document, language }) => document === "README.md" && language === "ts");
  const close = "await holdfast.close();\nawait app.close();\n";
  writeFileSync(join(consumer, "main.ts"), `${program?.text ?? ""}\n${close}`);
  const env = {
    HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
    HOLDFAST_PORT: "0",
    OPENAI_API_KEY: "",
    ANTHROPIC_API_KEY: "",
    GOOGLE_GENERATIVE_AI_API_KEY: "",
    OLLAMA_HOST: "",
  };
  const [output] = await Promise.all([
    run(process.execPath, ["main.ts"], consumer, env),
    tsc(consumer, { lib: ["es2025"], types: ["node"] }),
  ]);
  assert.match(output, /: sunny in Oslo\n.*\ncompleted\n$/);
});

test("npx runs the installed command, and what it prints is for npx as well", async () => {
  const consumer = makeConsumer("command", []);
  mkdirSync(join(consumer, "node_modules/.bin"));
  symlinkSync("../holdfast/bin/holdfast.js", join(consumer, "node_modules/.bin/holdfast"));
  const output = await run("npx", ["--offline", "holdfast", "--help"], consumer);
  assert.match(output, /^Usage: holdfast /);
  assert.match(output, /^ {2}npx holdfast serve /m);
});

test("what is not an entry point cannot be imported", async () => {
  const consumer = makeConsumer("private", []);
  writeFileSync(join(consumer, "main.js"), 'await import("holdfast/dist/core/index.js");');
  await assert.rejects(run(process.execPath, ["main.js"], consumer), /ERR_PACKAGE_PATH_NOT_EXPORTED/);
});

test("every entry point type-checks in a strict Node project", async () => {
  const consumer = makeConsumer("node", ["@types/node", "undici-types"]);
  await typecheck(consumer, own, { lib: ["es2025"], types: ["node"] });
});

test("the entry points for React and the AI SDK type-check where those are installed", async () => {
  const consumer = makeConsumer("peers", ["@types/node", "undici-types", "@types/react", "ai"]);
  // The declarations of others are theirs to check.
  const options = { types: ["node"], skipLibCheck: true };
  await typecheck(consumer, peered, { ...options, lib: ["es2025"] });
  await typecheck(consumer, peered, { ...options, lib: ["es2025", "dom"], customConditions: ["browser"] });
});

test("the browser's entry points type-check without Node's types", async () => {
  const consumer = makeConsumer("browser", []);
  await typecheck(consumer, browserNames, { lib: ["es2025", "dom"], types: [] });
});

test("the type check sees a name that an entry point lacks", async () => {
  const consumer = makeConsumer("wrong", []);
  writeFileSync(join(consumer, "main.ts"), 'import { nothingOfThisName } from "holdfast/protocol";\n');
  await assert.rejects(tsc(consumer, { lib: ["es2025", "dom"], types: [] }), /nothingOfThisName/);
});

/** An empty project with the package and its dependencies, far from our own `node_modules`. */
function makeConsumer(name: string, developmentPackages: readonly string[]): string {
  const consumer = join(work, name);
  const modules = join(consumer, "node_modules");
  mkdirSync(modules, { recursive: true });
  writeFileSync(join(consumer, "package.json"), '{ "type": "module", "private": true }\n');
  cpSync(join(work, "package"), join(modules, "holdfast"), { recursive: true });
  const { dependencies } = parseManifest(manifestText);
  for (const dependency of withTheirOwn([...Object.keys(dependencies), ...developmentPackages])) {
    mkdirSync(dirname(join(modules, dependency)), { recursive: true });
    cpSync(join(installed, dependency), join(modules, dependency), { recursive: true });
  }
  return consumer;
}

/** Packages, and what they depend on in turn. */
function withTheirOwn(packages: readonly string[]): ReadonlySet<string> {
  const found = new Set(packages);
  for (const one of found) {
    const manifest: unknown = JSON.parse(readFileSync(join(installed, one, "package.json"), "utf8"));
    for (const [name] of fieldsOf(field(manifest, "dependencies") ?? {})) found.add(name);
  }
  return found;
}

/** Imports each entry point as a whole, so that every declaration behind it is checked. */
async function typecheck(consumer: string, imported: readonly string[], options: Options): Promise<void> {
  const lines = imported.map((name, index) => `import * as entry${String(index)} from "${name}";`);
  const uses = imported.map((_, index) => `entry${String(index)}`).join(", ");
  writeFileSync(join(consumer, "main.ts"), `${lines.join("\n")}\nexport const entries = [${uses}];\n`);
  await tsc(consumer, options);
}

interface Options {
  readonly lib: readonly string[];
  readonly types: readonly string[];
  readonly skipLibCheck?: boolean;
  readonly customConditions?: readonly string[];
}

/** Strict, and without `skipLibCheck`: an error in our declarations is an error. */
async function tsc(consumer: string, options: Options): Promise<void> {
  const compilerOptions = {
    module: "nodenext",
    target: "es2025",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    noEmit: true,
    ...options,
  };
  writeFileSync(join(consumer, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
  await run(process.execPath, [join(installed, "typescript/bin/tsc"), "-p", "."], consumer);
}

/** Runs a command with our own Node first in the path. What it printed is in the error when it fails. */
async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const env = {
    ...process.env,
    ...more,
    PATH: `${join(installed, ".bin")}${delimiter}${process.env["PATH"] ?? ""}`,
  };
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, env }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${command} ${args.join(" ")} failed:\n${stdout}\n${stderr}`));
    });
  });
}

function entryPoints(): Entry[] {
  return fieldsOf(field(JSON.parse(manifestText), "exports"))
    .filter(([path]) => path !== "./package.json")
    .map(([path, target]) => ({
      name: path.replace(/^\./, "holdfast"),
      types: String(field(target, "types")).slice("./".length),
      code: String(field(target, "default")).slice("./".length),
    }));
}
