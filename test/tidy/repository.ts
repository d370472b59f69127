/**
 * Rules about the repository as a whole: what it says about machines, and what it depends on.
 */
import { matches, type Source, type Violation } from "./source.ts";

const machinePath = /(?<![\w.~/-])\/(?:work|root|home\/\w+|Users\/\w+)(?=[/\s"'`),:;]|$)/gm;
const registryHost =
  /\b(?:registry\.[\w-]+\.[a-z]{2,}|npm\.pkg\.github\.com|[\w.-]*(?:artifactory|verdaccio)[\w-]*\.[\w.-]+)/gi;

/** Nothing that only one machine has: no absolute path of it, no address it installs from. */
export function checkMachineTraces(file: Source): Violation[] {
  if (file.text.includes("\0") || file.path.startsWith("test/tidy")) return [];
  return [
    ...matches(file, "text", machinePath, (path) => `absolute path of a machine: ${path}`),
    ...matches(file, "text", registryHost, (host) => `address of a package registry: ${host}`),
  ];
}

/** The lock file pins content, not the place it came from. */
export function checkLockFile(file: Source): Violation[] {
  return matches(file, "text", /"resolved"\s*:/g, () => "the lock file has a download address");
}

export interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  /** Installed where they can be; whoever imports one must do without. */
  readonly optionalDependencies: Readonly<Record<string, string>>;
  /** What a program that wants it has itself. */
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** Each dependency is pinned to one version and has its reason in `docs/decisions/`. */
export function checkDependencies(manifest: Source, decisions: string): Violation[] {
  const { dependencies, devDependencies, optionalDependencies } = parseManifest(manifest.text);
  return Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }).flatMap(
    ([name, version]) => {
      const line =
        manifest.text.split("\n").findIndex((text) => text.includes(`"${name}": "${version}"`)) + 1;
      const found: Violation[] = [];
      if (!/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)) {
        found.push({ path: manifest.path, line, message: `${name} is not pinned: ${version}` });
      }
      if (!decisions.includes(`\`${name}\``)) {
        found.push({ path: manifest.path, line, message: `${name} has no reason in docs/decisions/` });
      }
      return found;
    },
  );
}

export function parseManifest(text: string): Manifest {
  const manifest: unknown = JSON.parse(text);
  return {
    dependencies: versionsIn(manifest, "dependencies"),
    devDependencies: versionsIn(manifest, "devDependencies"),
    optionalDependencies: versionsIn(manifest, "optionalDependencies"),
    peerDependencies: versionsIn(manifest, "peerDependencies"),
  };
}

function versionsIn(manifest: unknown, name: string): Record<string, string> {
  return Object.fromEntries(fieldsOf(field(manifest, name)).map(([key, version]) => [key, String(version)]));
}

/** The fields of a JSON object; none when it is something else. */
export function fieldsOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

export function field(value: unknown, name: string): unknown {
  return fieldsOf(value).find(([key]) => key === name)?.[1];
}
