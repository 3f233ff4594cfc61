const REQUEST_TIMEOUT_MS = 10_000;

/** Sluice rejected the request; a retry would not help. */
export class RejectedError extends Error {}

/** Minimal client of Sluice's management API. */
export class SluiceApi {
  readonly #host: string;
  readonly #token: string | undefined;

  constructor({ host, token }: { readonly host: string; readonly token: string | undefined }) {
    this.#host = host;
    this.#token = token;
  }

  /**
   * Sends a request and returns the payload of the response; undefined for the status `unless`. Rejects with
   * {@link RejectedError}, or with another error if a retry may succeed.
   */
  async send(method: string, path: string, body?: object, unless?: 404 | 409): Promise<object | undefined> {
    const response = await fetch(`${this.#host}/api/v1/${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
      // An authenticating proxy redirects to its login page, which must not receive the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await response.text();
    if (response.ok) return Object(JSON.parse(text)).data;
    if (response.status === unless) return undefined;
    const what = `${method} /api/v1/${path}: status ${response.status}: ${text.slice(0, 500)}`;
    if (response.status >= 500) throw new Error(what);
    // Sent by an authenticating proxy.
    const login = response.status < 400 || response.status === 401 || response.status === 403;
    throw new RejectedError(login ? `${what} (check SLUICE_TOKEN)` : what);
  }
}
