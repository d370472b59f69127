/**
 * `npm run release -- --dry-run`: packs the package and checks what a user would get: that the changelog speaks of it, that `exports` and types are right for every
 * way to resolve them, that an install of it runs, and what is in it. Without `--dry-run` it publishes the very file that was checked.
 *
 * Leaves the tarball and its bill of materials (CycloneDX) in `release/`.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { parse } from "./arguments.ts";

const HELP = `Usage: npm run release -- [--dry-run] [--offline]

  --dry-run   everything but the publishing
  --offline   without publint and attw, which npx fetches`;

const PUBLINT = "publint@0.3.25";
const TYPES = "@arethetypeswrong/cli@0.18.5";

const flags = parse({ "dry-run": { type: "boolean" }, offline: { type: "boolean" } }, HELP);
const BILL = z.looseObject({ components: z.array(z.looseObject({ name: z.string() })) });
const MANIFEST = z.object({ version: z.string(), dependencies: z.record(z.string(), z.string()) });
const { version } = MANIFEST.parse(JSON.parse(readFileSync("package.json", "utf8")));

const run = (command: string, args: readonly string[], cwd = "."): string => {
  process.stderr.write(`> ${command} ${args.join(" ")}\n`);
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
};

const problems: string[] = [];
const changes = readFileSync("CHANGELOG.md", "utf8");
if (!changes.includes(`\n## ${version}\n`)) problems.push(`CHANGELOG.md has no section "## ${version}"`);
if (flags["dry-run"] !== true && /\n## Unreleased\n\s*\S/.test(changes))
  problems.push("CHANGELOG.md has changes under Unreleased: give them their version");
if (flags["dry-run"] !== true && run("git", ["status", "--porcelain"]) !== "")
  problems.push("there are changes that are not committed");
stopFor(problems);

const release = resolve("release");
rmSync(release, { recursive: true, force: true });
mkdirSync(release);
run("npm", ["pack", "--silent", "--pack-destination", release]);
const tarball = join(release, `holdfast-${version}.tgz`);

if (flags.offline !== true) {
  process.stdout.write(run("npx", ["--yes", PUBLINT, tarball, "--strict"]));
  // ES modules only, and said so: `require` of them is Node's own way since 22.
  process.stdout.write(run("npx", ["--yes", TYPES, tarball, "--profile", "esm-only", "--no-emoji"]));
}

const user = mkdtempSync(join(tmpdir(), "holdfast-release-"));
try {
  writeFileSync(
    join(user, "package.json"),
    '{ "name": "user", "version": "0.0.0", "private": true, "type": "module" }\n',
  );
  run("npm", ["install", "--omit=dev", "--no-audit", "--no-fund", tarball], user);
  if (run("npx", ["holdfast", "--version"], user).trim() !== version)
    problems.push("the installed command says another version");
  const bill = BILL.parse(
    JSON.parse(run("npm", ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"], user)),
  );
  const bundled = bundledIn(join(user, "node_modules/holdfast/dist/vendor/LICENSES.txt"));
  const whole = { ...bill, components: [...bill.components, ...bundled] };
  // Without where the tarball lay on this machine.
  const text = JSON.stringify(whole, undefined, 2).replaceAll(`${release}/`, "");
  writeFileSync(join(release, `holdfast-${version}.sbom.json`), `${text}\n`);
  const files = readdirSync(join(user, "node_modules"), { recursive: true, withFileTypes: true });
  const bytes = files
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  process.stdout.write(
    `${tarball}: ${kib(statSync(tarball).size)}, installed ${kib(bytes)}, ${bill.components.length} packages and ${bundled.length} bundled\n`,
  );
} finally {
  rmSync(user, { recursive: true, force: true });
}
stopFor(problems);
if (flags["dry-run"] === true) process.stdout.write("Nothing was published.\n");
else run("npm", ["publish", tarball, "--access", "public"]);

/** What CycloneDX cannot see by itself: packages whose code is within ours. */
function bundledIn(licences: string): readonly object[] {
  const heads = readFileSync(licences, "utf8").matchAll(
    /^(?<name>(?:@[\w-]+\/)?[\w.-]+) (?<at>\d[\w.-]*), (?<licence>[\w. -]+)$/gm,
  );
  return [...heads].map(({ groups }) => {
    const { name = "", at = "", licence = "" } = groups ?? {};
    const purl = `pkg:npm/${name.replace("@", "%40")}@${at}`;
    return {
      type: "library",
      name,
      version: at,
      purl,
      scope: "required",
      licenses: [{ license: { id: licence } }],
      properties: [{ name: "holdfast:bundled", value: "true" }],
    };
  });
}

function kib(bytes: number): string {
  return `${Math.round(bytes / 1024).toLocaleString("en")} KiB`;
}

function stopFor(found: readonly string[]): void {
  if (found.length === 0) return;
  for (const problem of found) process.stderr.write(`${problem}\n`);
  process.exit(1);
}
