/**
 * The models of the server, as OpenAI lists them.
 */
export interface ListedModel {
  /** `provider/model`. */
  readonly id: string;
  readonly provider: string;
  readonly contextTokensMax?: number | undefined;
}

export interface ModelObject {
  readonly id: string;
  readonly object: "model";
  /** When the server began to offer it, in seconds since 1970: no provider says when a model was made. */
  readonly created: number;
  readonly owned_by: string;
  /** Not OpenAI's: the name that most compatible servers use for it. */
  readonly context_length?: number;
}

export function modelObject({ id, provider, contextTokensMax }: ListedModel, createdS: number): ModelObject {
  const size = contextTokensMax === undefined ? {} : { context_length: contextTokensMax };
  return { id, object: "model", created: createdS, owned_by: provider, ...size };
}

export function modelList(
  models: readonly ListedModel[],
  createdS: number,
): { readonly object: "list"; readonly data: readonly ModelObject[] } {
  return { object: "list", data: models.map((model) => modelObject(model, createdS)) };
}
