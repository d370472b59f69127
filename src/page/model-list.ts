/**
 * The models that the server offers, as its gateway lists them.
 */
import { useEffect, useState } from "react";
import { fieldsOf } from "../protocol/fields.ts";
import { BASE, bearer } from "./session.ts";

export interface ListedModel {
  readonly id: string;
}

/** Empty until the server has answered, and while it is away. Calls `refused` when the server does not know this browser any more. */
export function useModels(apiKey: string, refused: () => void): readonly ListedModel[] {
  const [models, setModels] = useState<readonly ListedModel[]>([]);
  useEffect(() => {
    const leave = new AbortController();
    const read = async (): Promise<void> => {
      const headers = bearer(apiKey);
      const response = await fetch(new URL("v1/models", BASE), { headers, signal: leave.signal });
      if (response.status === 401) refused();
      if (response.ok) setModels(listedIn(await response.json()));
    };
    // The server is away: the page works without the list.
    read().catch(() => undefined);
    return () => leave.abort();
  }, [apiKey, refused]);
  return models;
}

function listedIn(answer: unknown): readonly ListedModel[] {
  const { data } = fieldsOf(answer);
  const all: readonly unknown[] = Array.isArray(data) ? data : [];
  return all.flatMap((one) => {
    const { id } = fieldsOf(one);
    return typeof id === "string" ? [{ id }] : [];
  });
}
