const REQUEST_MS = 10_000;

/** Sluice is there and said no: asking again would change nothing. */
export class Refused extends Error {}

/** As much of Sluice's management API as a service needs that registers itself. */
export class SluiceApi {
  readonly #host: string;
  readonly #token: string | undefined;

  constructor({ host, token }: { readonly host: string; readonly token: string | undefined }) {
    this.#host = host;
    this.#token = token;
  }

  /**
   * Sends a request and resolves with the payload of its answer; undefined for a status in `unless`. Rejects with
   * {@link Refused}, or with something else where another attempt may succeed.
   */
  async send(method: string, path: string, body?: object, unless?: 404 | 409): Promise<object | undefined> {
    const response = await fetch(`${this.#host}/api/v1/${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
      // A proxy that wants people to log in redirects to a page; the token is not for that.
      redirect: 'manual',
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const text = await response.text();
    if (response.ok) return Object(JSON.parse(text)).data;
    if (response.status === unless) return undefined;
    const what = `${method} /api/v1/${path} was answered ${response.status}: ${text.slice(0, 500)}`;
    if (response.status >= 500) throw new Error(what);
    // What asks for a log-in is a proxy before Sluice.
    const login = response.status < 400 || response.status === 401 || response.status === 403;
    throw new Refused(login ? `${what} (is SLUICE_TOKEN right?)` : what);
  }
}
