/** A pipeline file in which every key and every setting has a value that is not its default. */
export const FULL = `listeners:
  - name: mcp
    address: 127.0.0.1:9001
    protocol: http
    filter_chains: [edge, agents]
    tls:
      certificates:
        - cert_path: cert.pem
          key_path: /keys/key.pem
    downstream_read_timeout_ms: 5000
    max_connections: 100
  - name: models
    address: '[::1]:9002'
    filter_chains: [edge, models]
filter_chains:
  - name: edge
    filters:
      - filter: static_response
        status: 404
        headers: [{name: Content-Type, value: text/plain}]
        body: "gone\\n"
        conditions:
          - when: {path: /up, methods: [GET, HEAD]}
          - unless: {headers: {X-Probe: deep}}
      - filter: headers
        request_add: [{name: X-Via, value: sluice}]
        response_add: [{name: X-Served, value: a}]
        response_set: [{name: Server, value: sluice}]
        response_remove: [X-Powered-By]
  - name: agents
    filters:
      - filter: cors
        allow_origins: [https://console.example.com, 'https://*.example.com']
        allow_methods: [GET, POST]
        allow_headers: [Content-Type, Mcp-Param-*]
        expose_headers: [Mcp-Session-Id]
        allow_credentials: true
        max_age: 60
        disallowed_origin_mode: reject
        allow_null_origin: true
      - filter: mcp
        on_invalid: reject
        max_body_bytes: 65536
      - filter: service_namespace
      - filter: service_methods
        mcp_methods: [tools/list, ping]
        conditions: [{when: {path_prefix: /finance}}]
      - filter: service_methods
  - name: models
    filters:
      - filter: path_rewrite
        strip_prefix: /llm
      - filter: path_rewrite
        add_prefix: /api
      - filter: path_rewrite
        replace: {pattern: ^/api/(v\\d), replacement: /$1/api}
      - filter: service_intercept
      - filter: router
        routes:
          - {path_prefix: /v1, host: models.example.com, headers: {X-Tier: gold}, cluster: fast}
          - {path_prefix: /, cluster: slow}
      - filter: load_balancer
        clusters:
          - name: slow
            endpoints: [10.0.0.1:80]
clusters:
  - name: fast
    endpoints:
      - 10.0.0.2:443
      - {address: 10.0.0.3:443, weight: 3}
    tls: {}
    connection_timeout_ms: 2000
body_limits:
  max_request_bytes: 1000000
  max_response_bytes: 2000000
shutdown_timeout_secs: 5
insecure_options:
  skip_pipeline_validation: true
`;
