import type { Registry } from '../registry/registry.ts';

interface Binding {
  readonly conversationId: string;
  /** Identity of the namespace at the last change of the registry; undefined if it did not exist. */
  identity: object | undefined;
}

/**
 * Conversations of namespaces (specification, "Namespace binding"), in memory only. A namespace that does not exist can be
 * bound; a deleted namespace loses its binding, so that a new one of the same name does not continue the conversation.
 */
export class NamespaceBindings {
  readonly #bindings = new Map<string, Binding>();
  readonly #registry: Registry;
  readonly #unsubscribe: () => void;

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#unsubscribe = registry.onChange(() => this.#dropDeleted());
  }

  /** Number of bound namespaces. */
  get size(): number {
    return this.#bindings.size;
  }

  /** Returns the conversation of a namespace; undefined if it is not bound. */
  get(namespace: string): string | undefined {
    return this.#bindings.get(namespace)?.conversationId;
  }

  set(namespace: string, conversationId: string): void {
    this.#bindings.set(namespace, { conversationId, identity: this.#identity(namespace) });
  }

  delete(namespace: string): void {
    this.#bindings.delete(namespace);
  }

  /** Returns the conversations by namespace, sorted by name. */
  list(): Record<string, string> {
    const sorted = [...this.#bindings].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(sorted.map(([namespace, { conversationId }]) => [namespace, conversationId]));
  }

  /** Unsubscribes from the registry. */
  close(): void {
    this.#unsubscribe();
  }

  #identity(namespace: string): object | undefined {
    return this.#registry.current.namespace(namespace)?.identity;
  }

  #dropDeleted(): void {
    for (const [namespace, binding] of this.#bindings) {
      const identity = this.#identity(namespace);
      if (binding.identity && binding.identity !== identity) this.#bindings.delete(namespace);
      else binding.identity = identity;
    }
  }
}
