import { z } from 'zod';
import type { Registry } from '../registry/registry.ts';
import type { Collection } from '../registry/store/collection.ts';

interface Binding {
  readonly conversationId: string;
  /** Identity of the namespace at the last change of the registry; undefined if it did not exist. */
  identity: object | undefined;
}

/** Bindings that replicas share: the conversation id by namespace. */
export type SharedBindings = Pick<Collection<string>, 'entries' | 'put' | 'remove' | 'confirm' | 'changed'>;

/** A stored conversation id. */
export const conversationId = z.string();

/**
 * Conversations of namespaces, in memory only, or shared by replicas. A namespace that does not exist can be bound; a deleted
 * namespace loses its binding, so that a new one of the same name does not continue the conversation.
 */
export class NamespaceBindings {
  readonly #bindings = new Map<string, Binding>();
  readonly #registry: Registry;
  readonly #shared: SharedBindings | undefined;
  readonly #unsubscribe: () => void;

  constructor(registry: Registry, shared?: SharedBindings) {
    this.#registry = registry;
    this.#shared = shared;
    this.#unsubscribe = registry.committed.subscribe(({ origins }) => this.#dropDeleted(origins.length === 0));
    if (!shared) return;
    for (const [namespace, conversationId] of shared.entries()) this.#put(namespace, conversationId);
    shared.changed.subscribe(({ id, content }) => this.#put(id, content));
  }

  /** Number of bound namespaces. */
  get size(): number {
    return this.#bindings.size;
  }

  /** Returns the conversation of a namespace; undefined if it is not bound. */
  get(namespace: string): string | undefined {
    return this.#bindings.get(namespace)?.conversationId;
  }

  /**
   * Binds a namespace, or removes its binding without a conversation: at once, or for all replicas; then it returns the ids of those
   * that may not have applied it.
   */
  set(namespace: string, conversationId: string | undefined): Promise<readonly string[]> | undefined {
    const shared = this.#shared;
    if (!shared) {
      this.#put(namespace, conversationId);
      return undefined;
    }
    const stored = conversationId === undefined ? shared.remove(namespace) : shared.put(namespace, conversationId);
    return stored.then(() => shared.confirm());
  }

  /** Removes the binding of a namespace, as {@link set}. */
  delete(namespace: string): Promise<readonly string[]> | undefined {
    return this.set(namespace, undefined);
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

  /** Without a conversation id, removes the binding. */
  #put(namespace: string, conversationId: string | undefined): void {
    if (conversationId === undefined) this.#bindings.delete(namespace);
    else this.#bindings.set(namespace, { conversationId, identity: this.#identity(namespace) });
  }

  #identity(namespace: string): object | undefined {
    return this.#registry.current.namespace(namespace)?.identity;
  }

  /** `isForeign`: another replica has deleted them, and their bindings for all. */
  #dropDeleted(isForeign: boolean): void {
    for (const [namespace, binding] of this.#bindings) {
      const identity = this.#identity(namespace);
      if (!binding.identity || binding.identity === identity) {
        binding.identity = identity;
        continue;
      }
      this.#bindings.delete(namespace);
      if (!isForeign) this.#shared?.remove(namespace).catch(() => undefined);
    }
  }
}
