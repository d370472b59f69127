/**
 * Who may import whom: the table of the architecture, and the rules that read imports.
 *
 * The table is the design. `gateway` cannot go around durability because it cannot name `server`;
 * `core` and `turn` stay pure because nothing that does I/O is within their reach.
 */
import { builtinModules } from "node:module";
import { posix } from "node:path";
import { violation, type Source, type Violation } from "./source.ts";

export interface Import {
  /** Undefined when the path is computed. */
  readonly specifier: string | undefined;
  readonly typeOnly: boolean;
  readonly position: number;
}

interface Reach {
  readonly may: readonly string[];
  /** Folders of which only types may be imported. */
  readonly types?: readonly string[];
}

/** Folder by folder, what it may import of ours besides itself. `cli` wires everything. */
export const importTable: Readonly<Record<string, Reach | "anything">> = {
  async: { may: [] },
  fetch: { may: [] },
  protocol: { may: [] },
  core: { may: ["protocol"] },
  turn: { may: ["protocol"] },
  store: { may: ["core", "protocol"] },
  sealing: { may: ["protocol"] },
  transport: { may: ["protocol"] },
  client: { may: ["async", "core", "protocol", "sealing", "transport", "turn"] },
  "client-node": { may: ["async", "client", "store", "protocol", "sealing", "transport"] },
  tools: { may: ["protocol", "turn"], types: ["client"] },
  live: { may: ["client", "protocol", "tools", "turn"] },
  react: { may: ["live", "protocol", "tools"], types: ["client"] },
  page: { may: ["protocol", "react"], types: ["turn"] },
  "ai-sdk": { may: ["client", "fetch", "live", "protocol", "tools"], types: ["turn"] },
  server: { may: ["async", "core", "protocol", "sealing", "store", "transport"] },
  agent: { may: ["core", "protocol", "turn"], types: ["server"] },
  gateway: { may: ["async", "client", "protocol", "turn"], types: ["sealing", "store", "transport"] },
  node: {
    may: [
      "agent",
      "ai-sdk",
      "async",
      "client",
      "client-node",
      "core",
      "gateway",
      "protocol",
      "sealing",
      "server",
      "store",
      "tools",
      "transport",
      "turn",
    ],
  },
  cli: "anything",
};

const statement =
  /(?<=^|[;{}\n]\s*)(?:import|export)\s+(?<type>type\s+(?!from\b))?(?:[\w$*\s,]|\{[^{}]*\})*?\bfrom\s*(?<quote>["'])/g;
const sideEffect = /(?<![.\w$])import\s*(?<quote>["'])/g;
const dynamic = /(?<![.\w$])import\s*\(\s*(?<quote>["'`])?/g;

/** Every import of a file: `import`, `import type`, `export ... from`, `import("...")`. */
export function importsOf(file: Source): Import[] {
  const found: Import[] = [];
  for (const pattern of [statement, sideEffect, dynamic]) {
    for (const match of file.code.matchAll(pattern)) {
      const quote = match.groups?.["quote"];
      const begin = match.index + match[0].length;
      const end = quote === undefined ? -1 : file.code.indexOf(quote, begin);
      const literal = end === -1 ? undefined : file.text.slice(begin, end);
      found.push({
        specifier: literal?.includes("${") === true ? undefined : literal,
        typeOnly: match.groups?.["type"] !== undefined,
        position: match.index,
      });
    }
  }
  return found.toSorted((a, b) => a.position - b.position);
}

/** `src/core/outbox.ts` lies in `core`, a test nowhere. */
function folderOf(path: string): string | undefined {
  const [top, second, ...rest] = path.split("/");
  return top === "src" && rest.length > 0 ? second : undefined;
}

/** The file of ours that an import names, also when it goes through our own package name. */
function ownTarget(from: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return posix.join(posix.dirname(from), specifier);
  if (specifier === "holdfast") return "src/node/index.ts";
  if (specifier.startsWith("holdfast/")) {
    return `src/${specifier.slice("holdfast/".length)}/index.ts`;
  }
  return undefined;
}

/** Imports follow the table, and lead to nothing outside of `src/`. */
export function checkImportTable(file: Source): Violation[] {
  const folder = folderOf(file.path);
  if (!file.path.startsWith("src/")) return [];
  const reach = folder === undefined ? undefined : importTable[folder];
  if (folder === undefined || reach === undefined) {
    return [violation(file, 0, `lies in no folder of the import table`)];
  }
  return importsOf(file).flatMap(({ specifier, typeOnly, position }) => {
    if (specifier === undefined) return [violation(file, position, "imports a computed path")];
    const target = ownTarget(file.path, specifier);
    if (target === undefined) return [];
    const to = folderOf(target);
    if (to === undefined) return [violation(file, position, `${folder} imports ${target}, outside of src/`)];
    if (to === folder || reach === "anything" || reach.may.includes(to)) return [];
    if (reach.types?.includes(to) === true) {
      return typeOnly ? [] : [violation(file, position, `${folder} may import only types of ${to}`)];
    }
    return [violation(file, position, `${folder} may not import ${to}`)];
  });
}

/** In the simulator these look at messages: checks, and what stands for users, their tools and a provider. */
const simulatedOutside =
  /\/(?:[\w-]*-checks|agent-(?:account|checks|messages|model|scenario|user|workbench|stores|comparison)|confused-server|sim-tools|user-blobs|generation|wild-model|long-answer|scenario|gateway-node|provider|wire)\.ts$/;

/**
 * The simulator runs what ships: it decides nothing for a turn. No file of it imports the turn's decisions, and only checks and the
 * outside world import messages or the model.
 */
export function checkSimulatedTurn(file: Source): Violation[] {
  if (!file.path.startsWith("test/simulation/") || file.path.startsWith("test/simulation/mutants/"))
    return [];
  return importsOf(file).flatMap(({ specifier, position }) => {
    const target = specifier === undefined ? undefined : ownTarget(file.path, specifier);
    if (target === undefined) return [];
    // What lies between a provider and the turn is run there as it ships.
    if (target === "src/agent/models/sdk-model.ts" || target === "src/agent/models/line/line-wire.ts")
      return [];
    if (/^src\/turn\/(?!attempts\.ts$)/.test(target) || /^src\/agent\/(?!index\.ts$)/.test(target))
      return [violation(file, position, `the simulator runs the turn from outside, and imports ${target}`)];
    const isMessage = target === "src/protocol/messages.ts" || target === "src/agent/index.ts";
    return isMessage && !simulatedOutside.test(file.path)
      ? [violation(file, position, `only checks and the outside world import ${target}`)]
      : [];
  });
}

const builtins = new Set(builtinModules);
const browserFolders = new Set([
  "ai-sdk",
  "async",
  "client",
  "core",
  "fetch",
  "live",
  "page",
  "protocol",
  "react",
  "transport",
  "turn",
  "sealing",
]);
const nodeFile = /^src\/(?:sealing|transport)\/(?:node(?:-[\w-]+)?\.ts$|node\/)/;

/** Whether a file must run in a browser: its folder does, and it is no `node.ts` or `node-*.ts`. */
export function isBrowserCode(path: string): boolean {
  const folder = folderOf(path);
  return folder !== undefined && browserFolders.has(folder) && !nodeFile.test(path);
}

/** Browser code imports no Node module, and no file that may. */
export function checkBrowserImports(file: Source): Violation[] {
  if (!isBrowserCode(file.path)) return [];
  return importsOf(file).flatMap(({ specifier, position }) => {
    if (specifier === undefined) return [];
    const target = ownTarget(file.path, specifier);
    const isNode = specifier.startsWith("node:") || builtins.has(specifier);
    return isNode || (target !== undefined && nodeFile.test(target))
      ? [violation(file, position, `browser code imports ${specifier}`)]
      : [];
  });
}

/** Packages that whoever imports a folder has beside ours. */
const PEERS: Readonly<Record<string, string>> = { react: "react" };

/** Packages that the page has inside: it is built before it is published. */
const BUILT_IN: ReadonlySet<string> = new Set(["react", "react-dom"]);

/** What is published needs only what is installed with it. Of a peer, types are for everybody, and values for the folder that is made for it. */
export function checkPackages(
  file: Source,
  dependencies: readonly string[],
  peers: readonly string[] = [],
): Violation[] {
  if (!file.path.startsWith("src/")) return [];
  return importsOf(file).flatMap(({ specifier, typeOnly, position }) => {
    if (specifier === undefined || ownTarget(file.path, specifier) !== undefined) return [];
    if (specifier.startsWith("node:")) return [];
    const parts = specifier.split("/");
    const name = parts.slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
    if (folderOf(file.path) === "page" && BUILT_IN.has(name)) return [];
    const isPeer = peers.includes(name) && (typeOnly || PEERS[folderOf(file.path) ?? ""] === name);
    return isPeer || dependencies.includes(name)
      ? []
      : [violation(file, position, `imports ${name}, which is no dependency of the package`)];
  });
}
