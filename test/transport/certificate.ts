/** A certificate of nobody, for 127.0.0.1, valid for a hundred years. Its key is public: it protects nothing. */
import { readFileSync } from "node:fs";

const read = (name: string): string => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");

export const testCertificate = { cert: read("test-cert.pem"), key: read("test-key.pem") };
