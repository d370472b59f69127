/**
 * The README and the documents are true: their programs run and print what is said, their commands
 * exist, their links lead somewhere, and the files they name are there.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { test } from "node:test";
import { entryPoints, repository, scripts } from "./docs/entry-points.ts";
import { blocksOf, filesNamedIn, linksOf } from "./docs/markdown.ts";

const documents = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...globSync("docs/**/*.md", { cwd: repository }),
]
  .toSorted()
  .map((path) => ({ path, text: readFileSync(join(repository, path), "utf8") }));

/** Generous: everything here takes seconds on an idle machine. */
const PROGRAM_MS = 60_000;

async function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  const bin = join(repository, "node_modules/.bin");
  const path = `${bin}${delimiter}${process.env["PATH"] ?? ""}`;
  // The last is set for the children of a test run; a program of a document is no test.
  const env = { ...process.env, PATH: path, NODE_TEST_CONTEXT: undefined };
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd, env, timeout: PROGRAM_MS }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`, { cause: error }));
    });
  });
}

function withoutSpaceAtLineEnds(output: string): string {
  return output.replaceAll(/ +$/gm, "").trimEnd();
}

for (const { path, text } of documents) {
  const blocks = blocksOf(text);
  const program = blocks
    .filter(({ language }) => language === "ts")
    .toSorted((a, b) => Number(b.runsFirst) - Number(a.runsFirst))
    .map((block) => block.text);
  if (program.length === 0) continue;

  test(`the program of ${path} runs, prints what is said, and type-checks`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "program.ts");
    writeFileSync(file, program.join("\n\n"));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(configOf(file)));
    const hook = join(repository, "test/docs/resolve-holdfast.ts");
    const [output] = await Promise.all([
      run(process.execPath, [`--import=${hook}`, file], folder),
      run("tsc", ["-p", folder], repository),
    ]);
    const said = blocks.filter(({ language }) => language === "text").map((block) => block.text);
    assert.equal(withoutSpaceAtLineEnds(output), withoutSpaceAtLineEnds(said.join("\n")));
  });
}

function configOf(file: string): unknown {
  const installed = join(repository, "node_modules");
  const paths: Record<string, string[]> = { "*": [join(installed, "*")] };
  for (const [name, source] of entryPoints) paths[name] = [source];
  return {
    extends: join(repository, "tsconfig.json"),
    compilerOptions: {
      typeRoots: [join(installed, "@types")],
      paths,
    },
    include: [file],
  };
}

/** What is said in `sh` blocks, one command each. */
const commands = documents.flatMap(({ path, text }) =>
  blocksOf(text)
    .filter(({ language }) => language === "sh")
    .flatMap((block) => block.text.split("\n"))
    .flatMap((line) => line.replace(/#.*$/, "").split(/&&|\|/))
    .map((command) => ({ path, command: command.trim() }))
    .filter(({ command }) => command !== ""),
);

test("every documented command is one that exists", () => {
  assert.ok(commands.length > 4);
  for (const { path, command } of commands) {
    const script = /^npm (?:run )?(?:-s )?(?<name>[\w:-]+)/.exec(command)?.groups?.["name"];
    const ours = /^(?:\w+=\S+ )*npx holdfast (?<name>\w+)/.exec(command)?.groups?.["name"];
    const file = /^npx node (?:--test )?(?<file>[\w/.-]+\.ts)$/.exec(command)?.groups?.["file"];
    const isKnown =
      command === "npm ci" ||
      command === "git diff" ||
      (script !== undefined && scripts.includes(script)) ||
      (ours !== undefined && existsSync(join(repository, `src/cli/${ours}.ts`))) ||
      (file !== undefined && existsSync(join(repository, file)));
    assert.ok(isKnown, `${path} says: ${command}`);
  }
});

test("the README's test command is what has to pass before a merge", () => {
  const readme = documents.find(({ path }) => path === "README.md")?.text ?? "";
  const gate = readFileSync(join(repository, ".ci/run"), "utf8");
  for (const command of ["npm ci", "npm test"]) {
    assert.ok(readme.includes(command) && gate.split("\n").includes(command), command);
  }
});

test("the README's simulation runs, with fewer seeds", async () => {
  const said = commands.find(({ command }) => command.startsWith("npm run sim --"))?.command;
  assert.equal(said, "npm run sim -- --seeds 100");
  const output = await run("npm", ["run", "--silent", "sim", "--", "--seeds", "3"], repository);
  assert.match(output, /\bsteps\b/);
});

test("the README's hunt for planted bugs knows its options", async () => {
  assert.ok(commands.some(({ command }) => command === "npm run sim:mutants"));
  const output = await run("npm", ["run", "--silent", "sim:mutants", "--", "--help"], repository);
  assert.match(output, /--seeds N/);
});

const examples = globSync("examples/*.ts", { cwd: repository });

for (const example of examples) {
  test(`${example} runs, and the README names it`, async () => {
    const output = await run(process.execPath, [example], repository);
    assert.equal(output, EXPECTED.get(example));
    assert.ok(commands.some(({ command }) => command === `npx node ${example}`));
  });
}

const EXPECTED: ReadonlyMap<string, string> = new Map([
  [
    "examples/tool-over-a-cut.ts",
    "deploy runs\nthe server has a result: execClientMessage\nthe stream ended: completed\n",
  ],
]);

test("every link within the repository leads to a file", () => {
  for (const { path, text } of documents) {
    for (const link of linksOf(text)) {
      assert.ok(existsSync(join(repository, dirname(path), link)), `${path} links to ${link}`);
    }
  }
});

test("every file that a document names is there", () => {
  let named = 0;
  for (const { path, text } of documents) {
    for (const file of filesNamedIn(text)) {
      named++;
      assert.ok(existsSync(join(repository, file)), `${path} names ${file}`);
    }
  }
  assert.ok(named > 50, `only ${named} files are named`);
});

/** Rows of the tables of invariants: `| A1 | what holds | enforced in | checked by |`. */
const INVARIANT_ROW = /^\|\s*(?<number>[A-F]\d)\s*\|.*\|(?<checks>[^|]*)\|$/gm;

test("what is said to check an invariant names its number", () => {
  const guarantees = documents.find(({ path }) => path === "docs/GUARANTEES.md")?.text ?? "";
  const simulator = globSync("test/simulation/**/*.ts", { cwd: repository })
    .map((path) => readFileSync(join(repository, path), "utf8"))
    .join("\n");
  const numbers = new Set<string>();
  for (const { groups } of guarantees.matchAll(INVARIANT_ROW)) {
    const { number = "", checks = "" } = groups ?? {};
    numbers.add(number);
    const simulated = /simulator(?: \((?<by>[A-F]\d)\))?/.exec(checks);
    const by = simulated?.groups?.["by"] ?? number;
    assert.ok(simulated === null || names(simulator, by), `the simulator does not name ${by}`);
    for (const file of filesNamedIn(checks)) {
      assert.ok(
        names(readFileSync(join(repository, file), "utf8"), number),
        `${file} does not name ${number}`,
      );
    }
  }
  assert.equal(numbers.size, 44);
});

function names(text: string, number: string): boolean {
  return new RegExp(`\\b${number}\\b`).test(text);
}
