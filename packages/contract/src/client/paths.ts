// Made of the OpenAPI document by `npm run generate`. Not to be edited.

export interface paths {
    "/api/v1/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the namespaces */
        get: operations["listNamespaces"];
        put?: never;
        /**
         * Create a namespace
         * @description Its name is the path segment of its MCP endpoint.
         */
        post: operations["createNamespace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/namespaces/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one namespace */
        get: operations["getNamespace"];
        /**
         * Replace the labels of a namespace
         * @description Renaming does not exist: a name in the body is ignored.
         */
        put: operations["updateNamespace"];
        post?: never;
        /**
         * Delete a namespace
         * @description One that is not empty is refused with the counts of what it holds. `default` is never deleted.
         */
        delete: operations["deleteNamespace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the forwards */
        get: operations["listForwards"];
        put?: never;
        /**
         * Register an upstream MCP server and discover what it offers
         * @description An upstream that is down, or that takes more than 30 s, is registered all the same with `available: false`; its discovery goes on in the background.
         */
        post: operations["createForward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one forward */
        get: operations["getForward"];
        put?: never;
        post?: never;
        /**
         * Delete a forward with all that it discovered
         * @description Calls in flight finish. A forward is changed by deleting it and registering it anew.
         */
        delete: operations["deleteForward"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/forwards/{name}/refreshes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Discover again what a forward offers
         * @description When that fails, what was known before stays.
         */
        post: operations["refreshForward"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the tools that are served
         * @description Over all namespaces or of one. What operators made comes in order of registration, what a forward brought in the order of its upstream.
         */
        get: operations["listTools"];
        put?: never;
        /**
         * Register a tool by hand
         * @description A namespace that does not exist is created.
         */
        post: operations["createTool"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tools/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one tool */
        get: operations["getTool"];
        /**
         * Replace a tool
         * @description Another name renames it, another namespace moves it. What differs from the upstream on a discovered tool is kept over discoveries.
         */
        put: operations["updateTool"];
        post?: never;
        /**
         * Delete a tool
         * @description A discovered one returns with the next discovery of its forward.
         */
        delete: operations["deleteTool"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the resources that are served
         * @description Over all namespaces or of one. What operators made comes in order of registration, what a forward brought in the order of its upstream.
         */
        get: operations["listResources"];
        put?: never;
        /**
         * Register a resource by hand
         * @description A namespace that does not exist is created.
         */
        post: operations["createResource"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resources/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one resource */
        get: operations["getResource"];
        /**
         * Replace a resource
         * @description Another name renames it, another namespace moves it. What differs from the upstream on a discovered resource is kept over discoveries.
         */
        put: operations["updateResource"];
        post?: never;
        /**
         * Delete a resource
         * @description A discovered one returns with the next discovery of its forward.
         */
        delete: operations["deleteResource"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/prompts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the prompts that are served
         * @description Over all namespaces or of one. What operators made comes in order of registration, what a forward brought in the order of its upstream.
         */
        get: operations["listPrompts"];
        put?: never;
        /**
         * Register a prompt by hand
         * @description A namespace that does not exist is created.
         */
        post: operations["createPrompt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/prompts/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one prompt */
        get: operations["getPrompt"];
        /**
         * Replace a prompt
         * @description Another name renames it, another namespace moves it. What differs from the upstream on a discovered prompt is kept over discoveries.
         */
        put: operations["updatePrompt"];
        post?: never;
        /**
         * Delete a prompt
         * @description A discovered one returns with the next discovery of its forward.
         */
        delete: operations["deletePrompt"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the capability services */
        get: operations["listServices"];
        put?: never;
        /**
         * Register the gRPC address of a capability service
         * @description Name, type, subtype and language are its key.
         */
        post: operations["createService"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the entry of a capability service */
        get: operations["getService"];
        put?: never;
        post?: never;
        /** Delete the entries of a capability service */
        delete: operations["deleteService"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/services/{name}/provisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Have a capability service keep configuration and secrets
         * @description With several entries of the name, the one registered first is asked. Neither is kept or logged on the way, and a failure says nothing of them.
         */
        post: operations["provisionService"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the evaluators that are active */
        get: operations["listEvaluators"];
        /**
         * Replace all evaluators
         * @description Actions are compiled now, and only now: a changed file counts from the next such request on. One that cannot be compiled leaves its evaluator out, and a warning says so. When the request is refused, nothing changes. Requests under way finish with the evaluators that they began with. An `If-Match` with the `ETag` of an earlier answer refuses the request with `CONFLICT` when another revision is active, as `expected_revision` does; `*` refuses it when none is. Where both are sent, both have to hold.
         */
        put: operations["replaceEvaluators"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/llm-connections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the names of the connections to models
         * @description What they consist of is set in the configuration of the service, and told nowhere.
         */
        get: operations["listLlmConnections"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the namespaces that are bound to a conversation */
        get: operations["listNamespaceBindings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/namespaces/{namespace}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Bind a namespace to a conversation
         * @description The namespace need not exist. It stays bound until the service stops, or until it is unbound.
         */
        put: operations["bindNamespace"];
        post?: never;
        /** Unbind a namespace from its conversation */
        delete: operations["unbindNamespace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the sets of evaluators that were submitted
         * @description At most 50 are kept, the active one among them.
         */
        get: operations["listEvaluatorRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/active": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the active revision */
        get: operations["getActiveEvaluatorRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one revision */
        get: operations["getEvaluatorRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evaluators/revisions/{id}/activate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make the evaluators of a revision the active ones
         * @description They become a new revision, as if they were submitted once more. No body is needed. An `If-Match` with the `ETag` of an earlier answer refuses the request with `CONFLICT` when another revision is active, as `expected_revision` does; `*` refuses it when none is. Where both are sent, both have to hold.
         */
        post: operations["activateEvaluatorRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tool-calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the latest events of tool calls
         * @description The last 1000 are kept, in memory.
         */
        get: operations["listToolCallEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tool-calls/notifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watch tool calls: an event stream that stays open
         * @description Each event has the `eventType` as its `event`, the `eventId` as its `id`, and a `ToolCallEvent` as JSON for its `data`. Events from before are not told. A comment comes every 15 s. Who falls more than 1000 events behind is disconnected. At most 100 clients can watch at a time.
         */
        get: operations["watchToolCallEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/interactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the completions that were asked for through the inference listener
         * @description The latest 1000, unless the service is told otherwise, are kept in memory. When their bodies have more than 256 MiB together, the oldest lose them.
         */
        get: operations["listInteractions"];
        put?: never;
        post?: never;
        /** Forget all interactions */
        delete: operations["clearInteractions"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/inference": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change where the inference listener forwards to, or how many interactions are kept
         * @description New requests go by it; those under way finish as they began. It is not kept over a restart. A body with neither member, or with another one, is refused.
         */
        post: operations["configureInference"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process lives; also while it shuts down */
        get: operations["getHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The same as `/healthz` */
        get: operations["getHealthAlias"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the service takes work: loaded, listening and not shutting down */
        get: operations["getReadiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/management/statistics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How much is served, over all namespaces */
        get: operations["getStatistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counters since the start of the process */
        get: operations["getMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["getOpenApi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        ActivationInput: {
            /** @description Refuses the request with CONFLICT when another revision is active; 0: when any is. */
            expected_revision?: number;
        };
        Binding: {
            namespace: string;
            conversation_id: string;
        };
        BindingInput: {
            /** @description The conversation that requests of the namespace belong to. */
            conversation_id: string;
        };
        CompileWarning: {
            /** @description Its name. */
            evaluator: string;
            /** @description Of its action, as it was submitted. */
            path: string;
            /** @constant */
            code: "WASM_COMPILE_FAILED";
            message: string;
        };
        /** @description How long something took; milliseconds have three decimals */
        Duration: {
            /** @description How often it was measured */
            count: number;
            /** @description All measurements together, in milliseconds */
            total_ms: number;
            /** @description `total_ms` divided by `count`; 0 where nothing was measured */
            avg_ms: number;
        };
        Evaluator: {
            name: string;
            trigger: {
                method: string;
                /** @description Only requests of this namespace; null: of all. */
                namespace: string | null;
            };
            llm: {
                /** @enum {string} */
                operation: "classify" | "filter" | "augment";
                prompt: string;
                connection: string;
                result_schema: {
                    [key: string]: unknown;
                } | null;
            };
            processor: {
                /** @description As it was submitted. */
                path: string;
            };
            /** @enum {string} */
            on_error: "continue" | "block";
        };
        EvaluatorInput: {
            /** @description Unique; an empty one is unprocessable. */
            name: string;
            trigger: {
                /** @description The MCP method, such as `tools/call`; an empty one is unprocessable. */
                method: string;
                /**
                 * @description Only requests of this namespace; an invalid name is unprocessable.
                 * @default null
                 */
                namespace?: string | null;
            };
            /** @description Nothing else: a model, a url or an api_key belongs to `llm_connections`, which no request can change. */
            llm: {
                /**
                 * @description What the model is asked for.
                 * @enum {string}
                 */
                operation: "classify" | "filter" | "augment";
                /** @description The system prompt. */
                prompt: string;
                /** @description The name of one of `llm_connections`; another one is unprocessable. */
                connection: string;
                /**
                 * @description A JSON Schema that the answer of the model must fit: draft 2020-12, or the one that `$schema` names. One that cannot be used, or that refers to another document, is unprocessable.
                 * @default null
                 */
                result_schema?: {
                    [key: string]: unknown;
                } | null;
            };
            processor: {
                /** @description The compiled action, on the service's own disk; a relative path starts where its configuration is. */
                path: string;
            };
            /**
             * @description Whether a request goes on or is refused when the model or the action fails.
             * @default continue
             * @enum {string}
             */
            on_error?: "continue" | "block";
        };
        /** @description What one evaluator decided, and what its runs were made of */
        EvaluatorMetrics: {
            decisions: {
                pass: number;
                block: number;
                reject_malformed: number;
                warn: number;
                filter_tools: number;
                set_metadata: number;
            };
            llm: {
                calls_success: number;
                calls_failure: number;
                empty_results: number;
                duration: components["schemas"]["Duration"];
            };
            schema: {
                validations_pass: number;
                validations_fail: number;
                retries_success: number;
                retries_failure: number;
            };
            wasm: {
                executions: number;
                not_found: number;
                duration: components["schemas"]["Duration"];
            };
            /** @description Time of the whole run */
            pipeline_duration: components["schemas"]["Duration"];
        };
        EvaluatorRevision: {
            /** @description They are counted from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; not there when it never was active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Equal for equal evaluators. */
            checksum: string;
            /**
             * @description The configuration of the service, or a request.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Who submitted it, as far as an authenticating proxy said so. */
            actor?: string;
            /** @description Why it was rejected. */
            failure_reason?: string;
        };
        EvaluatorRevisionContent: {
            /** @description They are counted from 1. */
            id: number;
            /**
             * Format: date-time
             * @description UTC
             */
            created_at: string;
            /**
             * Format: date-time
             * @description UTC; not there when it never was active.
             */
            activated_at?: string;
            /** @enum {string} */
            status: "active" | "superseded" | "rejected";
            /** @description Equal for equal evaluators. */
            checksum: string;
            /**
             * @description The configuration of the service, or a request.
             * @enum {string}
             */
            origin: "startup" | "api";
            /** @description Who submitted it, as far as an authenticating proxy said so. */
            actor?: string;
            /** @description Why it was rejected. */
            failure_reason?: string;
            /** @description As they were submitted; of a rejected revision they may break rules. */
            evaluators: components["schemas"]["Evaluator"][];
            /** @description The names of those that could not be loaded. */
            skipped: string[];
        };
        EvaluatorsInput: {
            /** @description In the order in which they run; none at all clears them. */
            evaluators: components["schemas"]["EvaluatorInput"][];
            /** @description Refuses the request with CONFLICT when another revision is active; 0: when any is. */
            expected_revision?: number;
        };
        /** @description What one filter did with the requests that reached it; each message of a batch is one more */
        FilterMetrics: {
            /** @description Requests passed on */
            requests_continue: number;
            /** @description Requests answered with a JSON-RPC error, or plainly with HTTP 400 or above */
            requests_reject: number;
            /** @description Requests answered in any other way: a result, a stream, a batch, plain HTTP below 400 */
            requests_other: number;
            /** @description Requests that the filter broke on: it threw */
            errors: number;
            /** @description Time in the filter itself until it passed on, answered or broke, waiting included; what a stream goes on to do is not */
            duration: components["schemas"]["Duration"];
        };
        Forward: {
            name: string;
            address: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            prefix?: string;
            /** @description Whether the last check, discovery or connection went well. Calls are attempted in any case. */
            available: boolean;
            /** @description The last failure, and what of the discovered is not served and why. */
            statusMessage?: string;
            /** @description What the upstream says of itself. */
            serverInfo?: {
                serverName: string;
                version: string;
                description?: string;
                websiteUrl?: string;
                capabilities: string[];
                extensions: string[];
                instructions?: string;
            };
            tools_discovered: number;
            resources_discovered: number;
            prompts_discovered: number;
        };
        ForwardInput: {
            name: string;
            /**
             * Format: uri
             * @description An http or https URL without user name and password.
             */
            address: string;
            /** @description Gets what is discovered; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name. */
            labels?: {
                [key: string]: string;
            };
            /** @description Put in front of the names of discovered tools and prompts. */
            prefix?: string;
        };
        InferenceConfig: {
            /** @description Where new requests go */
            upstream: string;
            /** @description How many interactions are kept */
            capacity: number;
        };
        Interaction: {
            /** @description When the request arrived, in milliseconds since 1970 */
            epoch_ms: number;
            /** @description Without query */
            path: string;
            /** @description The header `x-conversation-id` of the request, else `x-request-id` */
            conversation_id?: string;
            /** @description The `id` of the answer */
            completion_id?: string;
            /** @description The `model` of the answer */
            model?: string;
            /** @description JSON, else a text, else null; not there with `?bodies=false` */
            request_body?: unknown;
            /** @description JSON, else a text, else null; not there with `?bodies=false`. Of a streamed completion it is the whole that its chunks make */
            response_body?: unknown;
            /** @description 0 when the exchange ended before an answer began */
            status_code: number;
            /** @description Until the answer ended, broke off, or the client left */
            duration_ms: number;
            /**
             * @description There was more of the request than is kept (4 MiB), or its body is no longer kept
             * @constant
             */
            request_truncated?: true;
            /**
             * @description There was more of the answer than is kept (4 MiB), or its body is no longer kept
             * @constant
             */
            response_truncated?: true;
        };
        Metrics: {
            /** @description By the name of the filter, in the order of the chain */
            filters: {
                [key: string]: components["schemas"]["FilterMetrics"];
            };
            /** @description By the name of the evaluator */
            evaluators: {
                [key: string]: components["schemas"]["EvaluatorMetrics"];
            };
            /** @description Triggers of evaluators; `skipped_*` are runs not made because that input was absent */
            pipeline: {
                trigger_matches: number;
                trigger_misses: number;
                skipped_no_method: number;
                skipped_no_state: number;
                skipped_no_match: number;
                skipped_no_registry: number;
                skipped_no_interactions: number;
            };
            /** @description What is loaded now */
            gauges: {
                evaluators_loaded: number;
                wasm_compiled: number;
                namespace_bindings: number;
            };
        };
        Namespace: {
            name: string;
            labels: {
                [key: string]: string;
            };
        };
        NamespaceInput: {
            /** @description The path segment of its MCP endpoint. Alias `path`. */
            name: string;
            /** @description Free texts by name. */
            labels?: {
                [key: string]: string;
            };
        };
        NamespaceUpdate: {
            /** @description Ignored. */
            name?: string;
            /** @description Free texts by name, in place of the present ones. */
            labels?: {
                [key: string]: string;
            };
        };
        Prompt: {
            name: string;
            description: string;
            arguments: unknown[];
            messages: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description The name that the upstream uses, where it differs. Read only. */
            upstreamName?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
            /** @description The forward that discovered it; absent on what operators made. Read only. */
            forward?: string;
            /**
             * @description Not served, because another entry has its key. Read only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        PromptInput: {
            name: string;
            description?: string;
            /** @description What can be filled in. */
            arguments?: ({
                name: string;
                description?: string;
                required?: boolean;
            } & {
                [key: string]: unknown;
            })[];
            /** @description `{key}` in a text is replaced by the argument. None on discovered prompts, which their upstream renders. */
            messages?: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        PromptUpdate: {
            name?: string;
            description?: string;
            /** @description What can be filled in. */
            arguments?: ({
                name: string;
                description?: string;
                required?: boolean;
            } & {
                [key: string]: unknown;
            })[];
            /** @description `{key}` in a text is replaced by the argument. None on discovered prompts, which their upstream renders. */
            messages?: ({
                /** @enum {string} */
                role: "user" | "assistant" | "system";
                content: string | {
                    [key: string]: unknown;
                };
            } & {
                [key: string]: unknown;
            })[];
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ProvisionInput: {
            /** @description Configuration and secrets are kept under it. */
            name: string;
            /**
             * @description The configuration itself.
             * @default
             */
            configuration?: string;
            /**
             * @description The secrets themselves. They are handed on, and kept nowhere else.
             * @default
             */
            secrets?: string;
            /**
             * @description What the service is to provision for; its own matter.
             * @default
             */
            uri?: string;
        };
        Provisioned: {
            /** @description What a tool gives as its `configurationURI`. */
            configurationUri: string;
            /** @description What a tool gives as its `secretsURI`. */
            secretUri: string;
            /** @description What the service takes, by name. */
            properties: {
                [key: string]: {
                    type: string;
                    description: string;
                    required: boolean;
                };
            };
        };
        Refreshed: {
            refreshed: string;
            tools_discovered: number;
            resources_discovered: number;
            prompts_discovered: number;
        };
        Removed: {
            removed: string;
        };
        Resource: {
            name: string;
            location: string;
            type: string;
            description: string;
            mimeType: string;
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
            /** @description The forward that discovered it; absent on what operators made. Read only. */
            forward?: string;
            /**
             * @description Not served, because another entry has its key. Read only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        ResourceInput: {
            name: string;
            /** @description Its MCP uri or uri template; unique in the namespace. Alias `uri`. */
            location: string;
            /** @description Type label; `mcp-forward` on what forwards discovered. */
            type: string;
            description?: string;
            /** @description Alias `mime_type`. */
            mimeType?: string;
            /** @description What a capability service gets with each acquisition. */
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ResourceUpdate: {
            name?: string;
            /** @description Its MCP uri or uri template; unique in the namespace. Alias `uri`. */
            location: string;
            /** @description Type label; `mcp-forward` on what forwards discovered. */
            type: string;
            description?: string;
            /** @description Alias `mime_type`. */
            mimeType?: string;
            /** @description What a capability service gets with each acquisition. */
            params?: {
                name: string;
                value: string;
            }[];
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        Service: {
            name: string;
            host: string;
            port: number;
            address: string;
            /** @enum {string} */
            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            serviceSubType?: string;
            languageName?: string;
            labels: {
                [key: string]: string;
            };
            id?: string;
            /**
             * @description What the last probe said; `pending` before the first.
             * @enum {string}
             */
            health: "pending" | "healthy" | "unhealthy" | "down";
        };
        ServiceInput: {
            /** @description Alias `serviceName`. */
            name: string;
            /** @description `host:port`, an IPv6 address in brackets. Needed unless `host` and `port` are given. */
            address?: string;
            /** @description Must agree with `address` where both are given; an IPv6 address without brackets. */
            host?: string | unknown | unknown;
            /** @description Must agree with `address` where both are given. */
            port?: number;
            /**
             * @description Alias `service_type`.
             * @enum {string}
             */
            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            /** @description Engine of a code-execution engine. */
            serviceSubType?: string;
            /** @description Language of a code-execution engine. */
            languageName?: string;
            /** @description Free texts by name. */
            labels?: {
                [key: string]: string;
            };
            id?: string;
        } | unknown | unknown;
        Statistics: {
            toolsCount: number;
            resourcesCount: number;
            promptsCount: number;
            forwardsCount: number;
            /** @constant */
            dataStoresCount: 0;
        };
        Tool: {
            name: string;
            description: string;
            uri: string;
            toolType: string;
            input_schema: {
                [key: string]: unknown;
            };
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            /** @description The name that the upstream uses, where it differs. Read only. */
            upstreamName?: string;
            namespace: string;
            labels: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
            /** @description The forward that discovered it; absent on what operators made. Read only. */
            forward?: string;
            /**
             * @description Not served, because another entry has its key. Read only.
             * @constant
             */
            shadowed?: true;
        } & {
            [key: string]: unknown;
        };
        /** @description A tool call began, was carried out, or failed. One that failed before it could begin has a FAILED event alone. */
        ToolCallEvent: {
            /**
             * Format: uuid
             * @description The same in the STARTED event of a call and in the one that ends it
             */
            eventId: string;
            /** @constant */
            eventType: "STARTED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Of code: `code-execution/{engine}/{language}` */
            toolName: string;
            toolType: string;
            /** @description The name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or the origin of the upstream; empty when there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description The call's own header `x-request-id` */
            requestId?: string;
            /** @description Without those that carry credentials (`service_auth_`), the first 100; of code none at all */
            argumentNames?: string[];
            /** @description How many arguments there are, whatever their names */
            argumentCount: number;
            /** @description The names of the headers that the arguments or the request add, the first 100 */
            headers: {
                [key: string]: "[REDACTED]";
            };
            /**
             * @description Where code is executed
             * @constant
             */
            body?: "[CODE]";
        } | {
            /**
             * Format: uuid
             * @description The same in the STARTED event of a call and in the one that ends it
             */
            eventId: string;
            /** @constant */
            eventType: "COMPLETED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Of code: `code-execution/{engine}/{language}` */
            toolName: string;
            toolType: string;
            /** @description The name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or the origin of the upstream; empty when there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description The call's own header `x-request-id` */
            requestId?: string;
            /** @description The tool says itself that it failed */
            isError: boolean;
            /** @description The texts of the result, together at most 16 KiB */
            content: string[];
            /**
             * @description There was more text than that
             * @constant
             */
            contentTruncated?: true;
            /** @description Milliseconds */
            duration: number;
        } | {
            /**
             * Format: uuid
             * @description The same in the STARTED event of a call and in the one that ends it
             */
            eventId: string;
            /** @constant */
            eventType: "FAILED";
            /**
             * Format: date-time
             * @description UTC
             */
            timestamp: string;
            /** @enum {string} */
            transport: "mcp" | "grpc" | "code";
            namespace: string;
            /** @description Of code: `code-execution/{engine}/{language}` */
            toolName: string;
            toolType: string;
            /** @description The name of the capability service */
            serviceId?: string;
            /** @description `host:port` of the capability service, or the origin of the upstream; empty when there is none */
            serviceAddress: string;
            conversationId?: string;
            /** @description The call's own header `x-request-id` */
            requestId?: string;
            /** @description Milliseconds */
            duration: number;
            /** @enum {string} */
            errorCategory: "SERVICE_UNAVAILABLE" | "TOOL_DEFINITION_ERROR" | "INVALID_ARGUMENTS" | "EXECUTION_ERROR" | "UNKNOWN";
            /** @description At most 1000 characters */
            errorMessage: string;
        };
        ToolInput: {
            name: string;
            /** @description What it does; may be empty. */
            description: string;
            /** @description The server that its calls go to. Set by discovery on a discovered tool, and fixed. */
            uri: string;
            /** @description Type label; `mcp-forward` on what forwards discovered. Alias `type`. */
            toolType: string;
            /** @description JSON Schema of the arguments. Alias `inputSchema`. */
            input_schema: {
                [key: string]: unknown;
            };
            /** @description A name for people. */
            title?: string;
            /** @description Hints for clients, as MCP has them. */
            annotations?: {
                [key: string]: unknown;
            };
            /** @description Icons, as MCP has them. */
            icons?: unknown[];
            /** @description JSON Schema of the structured result. Alias `outputSchema`. */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        ToolUpdate: {
            name?: string;
            /** @description What it does; may be empty. */
            description: string;
            /** @description The server that its calls go to. Set by discovery on a discovered tool, and fixed. */
            uri: string;
            /** @description Type label; `mcp-forward` on what forwards discovered. Alias `type`. */
            toolType: string;
            /** @description JSON Schema of the arguments. Alias `inputSchema`. */
            input_schema: {
                [key: string]: unknown;
            };
            /** @description A name for people. */
            title?: string;
            /** @description Hints for clients, as MCP has them. */
            annotations?: {
                [key: string]: unknown;
            };
            /** @description Icons, as MCP has them. */
            icons?: unknown[];
            /** @description JSON Schema of the structured result. Alias `outputSchema`. */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description Where a capability service finds its secrets. */
            secretsURI?: string;
            /** @description The namespace it belongs to; `default` when left out. One that does not exist is created. */
            namespace?: string;
            /** @description Free texts by name; replaced as a whole. */
            labels?: {
                [key: string]: string;
            };
            /** @description Configuration for a capability service. */
            configurationURI?: string;
            /** @description An identifier of the operator, kept as it is. */
            id?: string;
        } & {
            [key: string]: unknown;
        };
        Unbound: {
            unbound: string;
        };
    };
    responses: {
        /** @description The request cannot be read, or its body breaks a rule: `details` names each member. */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "BAD_REQUEST";
                        message: string;
                        details?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
        };
        /** @description The request names a Host or an Origin that is not accepted. */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "FORBIDDEN";
                        message: string;
                    };
                };
            };
        };
        /** @description Nothing has this name. */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "NOT_FOUND";
                        message: string;
                    };
                };
            };
        };
        /** @description The path has other methods. */
        MethodNotAllowed: {
            headers: {
                /** @description The methods that the path has. */
                Allow: string;
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "METHOD_NOT_ALLOWED";
                        message: string;
                    };
                };
            };
        };
        /** @description The name is taken or means several, or what is there stands against it: `details` says what. */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "CONFLICT";
                        message: string;
                        details?: {
                            [key: string]: unknown;
                        };
                    };
                };
            };
        };
        /** @description The body is larger than 1 MiB. */
        PayloadTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "PAYLOAD_TOO_LARGE";
                        message: string;
                    };
                };
            };
        };
        /** @description The body is well formed, but names what does not exist or breaks a rule: `details` may say where. */
        Unprocessable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "UNPROCESSABLE";
                        message: string;
                        details?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
        };
        /** @description The service failed and nothing has changed; its log says more. */
        Internal: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "INTERNAL";
                        message: string;
                    };
                };
            };
        };
        /** @description The other side could not be reached or gave no usable answer. */
        BadGateway: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "BAD_GATEWAY";
                        message: string;
                    };
                };
            };
        };
        /** @description The service is starting or shutting down, or has as many clients of this as it takes. */
        Unavailable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "UNAVAILABLE";
                        message: string;
                    };
                };
            };
        };
        /** @description Path, query and headers have more than 16 KiB. */
        RequestHeaderFieldsTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    data: null;
                    error: {
                        /** @constant */
                        code: "BAD_REQUEST";
                        message: string;
                        details?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listNamespaces: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The namespaces, `default` among them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NamespaceInput"];
            };
        };
        responses: {
            /** @description It existed, and is unchanged. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                    };
                };
            };
            /** @description The namespace. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The namespace. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    updateNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NamespaceUpdate"];
            };
        };
        responses: {
            /** @description The namespace as it is now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Namespace"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteNamespace: {
        parameters: {
            query?: {
                /** @description `true` deletes all that it holds with it, forwards included. */
                cascade?: "true";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listForwards: {
        parameters: {
            query?: {
                /** @description Only forwards of this namespace. */
                namespace?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The forwards, in order of registration. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createForward: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForwardInput"];
            };
        };
        responses: {
            /** @description The forward, with what was discovered. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The forward. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Forward"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    deleteForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    refreshForward: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What it offers now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Refreshed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            502: components["responses"]["BadGateway"];
        };
    };
    listTools: {
        parameters: {
            query?: {
                /** @description Only entries of this namespace. */
                namespace?: string;
                /** @description `shadowed` lists also entries that are not served because another one, registered earlier, has their key. `upstream` is described at the single entry. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tools. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createTool: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolInput"];
            };
        };
        responses: {
            /** @description The tool. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getTool: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
                /** @description `upstream` adds a read-only member of that name to a discovered entry: what its upstream says itself, in the members that a PUT can override. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tool. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updateTool: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolUpdate"];
            };
        };
        responses: {
            /** @description The tool as it is now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Tool"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteTool: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listResources: {
        parameters: {
            query?: {
                /** @description Only entries of this namespace. */
                namespace?: string;
                /** @description `shadowed` lists also entries that are not served because another one, registered earlier, has their key. `upstream` is described at the single entry. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The resources. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createResource: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResourceInput"];
            };
        };
        responses: {
            /** @description The resource. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getResource: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
                /** @description The location that is meant, where several resources share the name. */
                uri?: string;
                /** @description `upstream` adds a read-only member of that name to a discovered entry: what its upstream says itself, in the members that a PUT can override. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The resource. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updateResource: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
                /** @description The location that is meant, where several resources share the name. */
                uri?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResourceUpdate"];
            };
        };
        responses: {
            /** @description The resource as it is now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Resource"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deleteResource: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
                /** @description The location that is meant, where several resources share the name. */
                uri?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listPrompts: {
        parameters: {
            query?: {
                /** @description Only entries of this namespace. */
                namespace?: string;
                /** @description `shadowed` lists also entries that are not served because another one, registered earlier, has their key. `upstream` is described at the single entry. */
                include?: "shadowed" | "upstream" | "shadowed,upstream";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The prompts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createPrompt: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromptInput"];
            };
        };
        responses: {
            /** @description The prompt. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getPrompt: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
                /** @description `upstream` adds a read-only member of that name to a discovered entry: what its upstream says itself, in the members that a PUT can override. */
                include?: "upstream";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The prompt. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            500: components["responses"]["Internal"];
        };
    };
    updatePrompt: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromptUpdate"];
            };
        };
        responses: {
            /** @description The prompt as it is now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Prompt"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    deletePrompt: {
        parameters: {
            query?: {
                /** @description The namespace that is meant. Without it: `default`, else the only one that has the name. */
                namespace?: string;
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Removed"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listServices: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries, in order of registration. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    createService: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ServiceInput"];
            };
        };
        responses: {
            /** @description The key was known: the entry is replaced. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"];
                        error: null;
                    };
                };
            };
            /** @description The entry. */
            201: {
                headers: {
                    /** @description Where it can be read. */
                    Location: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Service"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getService: {
        parameters: {
            query?: {
                /** @description Only entries of this type, where several share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entry registered first; with several of the name, all of them in `entries`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            host: string;
                            port: number;
                            address: string;
                            /** @enum {string} */
                            serviceType: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
                            serviceSubType?: string;
                            languageName?: string;
                            labels: {
                                [key: string]: string;
                            };
                            id?: string;
                            /**
                             * @description What the last probe said; `pending` before the first.
                             * @enum {string}
                             */
                            health: "pending" | "healthy" | "unhealthy" | "down";
                            entries?: components["schemas"]["Service"][];
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    deleteService: {
        parameters: {
            query?: {
                /** @description Only entries of this type, where several share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name, and how many entries it had. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            removed: string;
                            count: number;
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    provisionService: {
        parameters: {
            query?: {
                /** @description Only entries of this type, where several share the name. */
                serviceType?: "tool-invoker" | "resource-provider" | "multi-capability" | "code-execution-engine";
            };
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProvisionInput"];
            };
        };
        responses: {
            /** @description Where the service keeps them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Provisioned"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
            502: components["responses"]["BadGateway"];
        };
    };
    listEvaluators: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The evaluators, in the order in which they run. */
            200: {
                headers: {
                    /** @description The number of the active revision, in quotes; `"0"` when there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Evaluator"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    replaceEvaluators: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EvaluatorsInput"];
            };
        };
        responses: {
            /** @description The evaluators that are active now. `warnings` is there when some could not be loaded; those are not among them. */
            200: {
                headers: {
                    /** @description The number of the active revision, in quotes; `"0"` when there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Evaluator"][];
                        error: null;
                        warnings?: components["schemas"]["CompileWarning"][];
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    listLlmConnections: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The names, sorted. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: string[];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    listNamespaceBindings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The id of the conversation, by the name of the namespace. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            [key: string]: string;
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    bindNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                namespace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BindingInput"];
            };
        };
        responses: {
            /** @description The binding. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Binding"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    unbindNamespace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name, percent-encoded: a slash in it is `%2F`. */
                namespace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Its name, also when it was not bound. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Unbound"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    listEvaluatorRevisions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revisions, newest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevision"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getActiveEvaluatorRevision: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevisionContent"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    getEvaluatorRevision: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the revision. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revision. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["EvaluatorRevisionContent"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            500: components["responses"]["Internal"];
        };
    };
    activateEvaluatorRevision: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The number of the revision. */
                id: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ActivationInput"];
            };
        };
        responses: {
            /** @description The evaluators that are active now. `warnings` is there when some could not be loaded; those are not among them. */
            200: {
                headers: {
                    /** @description The number of the active revision, in quotes; `"0"` when there is none. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Evaluator"][];
                        error: null;
                        warnings?: components["schemas"]["CompileWarning"][];
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["PayloadTooLarge"];
            422: components["responses"]["Unprocessable"];
            500: components["responses"]["Internal"];
        };
    };
    listToolCallEvents: {
        parameters: {
            query?: {
                /** @description Only events of this tool. */
                toolName?: string;
                /** @description Only FAILED events of this category. */
                category?: "SERVICE_UNAVAILABLE" | "TOOL_DEFINITION_ERROR" | "INVALID_ARGUMENTS" | "EXECUTION_ERROR" | "UNKNOWN";
                /** @description How many at most: 100 when it is no whole number from 1 on; more than 1000 counts as 1000. */
                limit?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, newest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["ToolCallEvent"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    watchToolCallEvents: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, from now on. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listInteractions: {
        parameters: {
            query?: {
                /** @description Only those of this conversation. */
                conversation_id?: string;
                /** @description Only those whose answer has this id. */
                completion_id?: string;
                /** @description How many at most, the newest: 1 or more, all when it is anything else. */
                limit?: string;
                /** @description Whether to answer the bodies too, as is done unless this says no. */
                bodies?: "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The interactions, oldest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Interaction"][];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    clearInteractions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description They are gone. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            cleared: true;
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    configureInference: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description `host:port`, `http://host[:port][/path]` or `https://host[:port][/path]` */
                    upstream?: string;
                    /** @description How many interactions are kept; 0 records nothing */
                    capacity?: number;
                } & {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description What counts now. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["InferenceConfig"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["PayloadTooLarge"];
            500: components["responses"]["Internal"];
        };
    };
    getHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            status: "ok";
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getHealthAlias: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It lives. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            status: "ok";
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getReadiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            status: "ready";
                        };
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getStatistics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Statistics"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counters. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: components["schemas"]["Metrics"];
                        error: null;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
    getOpenApi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            403: components["responses"]["Forbidden"];
            500: components["responses"]["Internal"];
        };
    };
}
