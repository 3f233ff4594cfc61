/** A function that receives an event: an object, since a function may subscribe twice. */
interface Subscription<Payload> {
  readonly subscriber: (payload: Payload) => void;
}

/**
 * An event with any number of subscribers, which are called in the order of their subscriptions. Without any, `emit` is one
 * comparison.
 */
export class Emitter<Payload = void> {
  /** Undefined without subscribers: there are many emitters. */
  #subscriptions: Set<Subscription<Payload>> | undefined = undefined;

  /**
   * Calls all subscribers before it returns. One that throws affects neither the caller nor other subscribers: its error becomes
   * an uncaught exception, as for `EventTarget` of Node.js.
   */
  emit(payload: Payload): void {
    if (this.#subscriptions !== undefined) notifyAll(this.#subscriptions, payload);
  }

  /** Returns the function that ends the subscription. */
  subscribe(subscriber: (payload: Payload) => void): () => void {
    const subscription: Subscription<Payload> = { subscriber };
    this.#subscriptions ??= new Set();
    this.#subscriptions.add(subscription);
    return () => {
      this.#subscriptions?.delete(subscription);
      if (this.#subscriptions?.size === 0) this.#subscriptions = undefined;
    };
  }
}

function notifyAll<Payload>(subscriptions: ReadonlySet<Subscription<Payload>>, payload: Payload): void {
  // A copy: subscribers that are added meanwhile get the next event.
  for (const subscription of [...subscriptions]) {
    if (!subscriptions.has(subscription)) continue;
    try {
      subscription.subscriber(payload);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
