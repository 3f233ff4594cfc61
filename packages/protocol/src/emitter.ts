interface Subscription<Payload> {
  /** Undefined once it has ended. */
  subscriber: ((payload: Payload) => void) | undefined;
}

/**
 * An event with any number of subscribers, which are called in the order of their subscriptions. Without any, `emit` is one
 * comparison.
 */
export class Emitter<Payload = void> {
  /** Replaced by each change, so that an emission in progress is not affected by new subscribers. */
  #subscriptions: readonly Subscription<Payload>[] | undefined = undefined;

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
    this.#subscriptions = [...(this.#subscriptions ?? []), subscription];
    return () => {
      subscription.subscriber = undefined;
      const others = this.#subscriptions?.filter((other) => other !== subscription);
      this.#subscriptions = others?.length === 0 ? undefined : others;
    };
  }
}

function notifyAll<Payload>(subscriptions: readonly Subscription<Payload>[], payload: Payload): void {
  for (const subscription of subscriptions) {
    try {
      subscription.subscriber?.(payload);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
