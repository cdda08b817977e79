"""What runs in a cluster, as people write it: seeds for damaged files, one of every kind of object that is read."""

from __future__ import annotations

_PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
        - name: engine
          image: vllm/vllm-openai:v0.32.0
          command: [sh, -c]
          args: ["vllm serve $MODEL --tensor-parallel-size ${TP:-2} --max-num-seqs=128 --max-model-len 32k"]
          env: [{name: MODEL, value: Qwen/Qwen3-32B}, {name: TP, value: "2"}]
          resources: {limits: {nvidia.com/gpu: 2}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, topology.kubernetes.io/zone: a}}
status: {capacity: {nvidia.com/gpu: "8"}, allocatable: {nvidia.com/gpu: "8"}}
"""
_HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: serving}
spec:
  scaleTargetRef: {kind: Deployment, name: chat}
  minReplicas: 2
  maxReplicas: 10
  metrics:
    - type: Pods
      pods: {metric: {name: "vllm:num_requests_waiting"}, target: {type: AverageValue, averageValue: 500m}}
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
    - {type: External, external: {metric: {name: queue}, target: {type: Value, value: "20"}}}
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
    scaleDown: {selectPolicy: Min, tolerance: 0.05, policies: [{type: Pods, value: 1, periodSeconds: 60}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config}
data:
  config.yaml: |
    externalRules:
    - seriesQuery: 'vllm:num_requests_waiting{namespace!=""}'
      name: {as: queue}
      metricsQuery: 'sum(max_over_time(<<.Series>>{<<.LabelMatchers>>}[1m]))'
    rules:
    - {seriesQuery: 'vllm:num_requests_running', name: {matches: "^(.*)$", as: "${1}_now"}}
"""
_KEDA = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  pollingInterval: 15
  cooldownPeriod: 300
  minReplicaCount: 1
  maxReplicaCount: 8
  idleReplicaCount: 0
  fallback: {failureThreshold: 3, replicas: 4, behavior: currentReplicasIfHigher}
  advanced:
    scalingModifiers: {formula: "max(waiting, running / 20)", target: "5", metricType: AverageValue}
    horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}
  triggers:
    - {type: prometheus, name: waiting, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "5"}}
    - {type: prometheus, name: running, metricType: Value,
       metadata: {query: "avg(vllm:num_requests_running)", threshold: "100", activationThreshold: "1"}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: batch}
spec:
  scaleTargetRef: {name: batch}
  triggers:
    - type: cron
      metadata: {timezone: Europe/Berlin, start: "0 8 * * MON-FRI", end: "30 18 * * 1-5", desiredReplicas: "6"}
    - {type: cpu, metricType: Utilization, metadata: {value: "70"}}
"""
_KNATIVE = """\
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: chat}
spec:
  template:
    metadata:
      annotations:
        autoscaling.knative.dev/class: kpa.autoscaling.knative.dev
        autoscaling.knative.dev/metric: concurrency
        autoscaling.knative.dev/target: "20"
        autoscaling.knative.dev/min-scale: "1"
        autoscaling.knative.dev/max-scale: "6"
        autoscaling.knative.dev/window: 90s
        autoscaling.knative.dev/panic-threshold-percentage: "150"
        autoscaling.knative.dev/scale-to-zero-pod-retention-period: 1m5s
    spec: {containerConcurrency: 40, containers: [{image: "vllm/vllm-openai:v0.32.0", args: [--model=a/b]}]}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}
spec:
  predictor:
    minReplicas: 2
    maxReplicas: 5
    scaleMetric: cpu
    scaleTarget: 70
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --model_id=meta-llama/Llama-3.1-8B-Instruct, --max-model-len=8192]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
_PLANNERS = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: chat-va}
spec: {scaleTargetRef: {kind: Deployment, name: chat}, modelID: meta/llama-70b, variantCost: "15.5"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wva-saturation-scaling-config}
data:
  default: |
    kvCacheThreshold: 0.75
    queueLengthThreshold: 8
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: graph}
spec:
  services:
    Planner:
      replicas: 1
      extraPodSpec:
        mainContainer:
          args: [--environment=kubernetes, --backend=vllm, --adjustment-interval=60, --ttft=500, --itl=50,
                 --load-predictor=kalman, --no-correction, --min-endpoint=1, --max-gpu-budget=16]
    VllmDecodeWorker: {replicas: 2, resources: {limits: {gpu: "2"}}}
    VllmPrefillWorker: {replicas: 1, resources: {limits: {gpu: "1"}}}
"""
_CONFIGURED = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agg}
spec:
  services:
    Planner:
      replicas: 1
      extraPodSpec:
        mainContainer:
          args:
            - --config
            - '{"mode": "agg", "optimization_target": "load", "decode_scale_up_kv_rate": 80,
              "decode_scale_down_kv_rate": 50, "load_adjustment_interval_seconds": 10, "max_gpu_budget": 16,
              "min_endpoint": 1, "load_predictor": "kalman", "kalman_q_level": 2.0, "decode_engine_num_gpu": 2}'
    VllmDecodeWorker: {replicas: 2, resources: {limits: {gpu: "2"}}}
---
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: chat-va}
spec: {scaleTargetRef: {kind: Deployment, name: chat}, modelID: meta/llama-70b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wva-saturation-scaling-config}
data:
  default: |
    kvCacheThreshold: 0.75
    analyzerName: saturation
    scaleUpThreshold: 0.8
  llama: |
    model_id: meta/llama-70b
    queueLengthThreshold: 8
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat}
spec:
  scaleTargetRef: {kind: Deployment, name: chat}
  minReplicas: 1
  maxReplicas: 6
  metrics:
    - type: External
      external:
        metric: {name: wva_desired_replicas, selector: {matchLabels: {variant_name: chat-va}}}
        target: {type: AverageValue, averageValue: "1"}
"""
_STACK = """\
servingEngineSpec:
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.10.0
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 2
    requestGPU: 2
    vllmConfig:
      {maxModelLen: 16384, maxNumSeqs: 64, tensorParallelSize: 2, extraArgs: [--max-num-batched-tokens, "4096"]}
    keda:
      enabled: true
      minReplicaCount: 1
      maxReplicaCount: 3
      triggers: [{type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", threshold: "5"}}]
routerSpec: {replicaCount: 1}
"""
_MODEL = """\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: big}
spec:
  model: {uri: "hf://deepseek-ai/DeepSeek-R1:main", name: r1}
  scaling: {minReplicas: 3, maxReplicas: 7, wva: {hpa: {}}}
  parallelism: {tensor: 8, pipeline: 2}
  template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
  worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
---
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  replicas: 8
  parallelism: {tensor: 2}
  containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d-cuda:v0.3.1", args: [--max-num-seqs=256]}]
prefill: {create: false, replicas: 2}
"""
CLUSTERS = (_PODS, _HPA, _KEDA, _KNATIVE, _PLANNERS, _CONFIGURED, _STACK, _MODEL)
SIGNS = ("apiVersion:", "servingEngineSpec:", "modelArtifacts:")
"""What tells a cluster's objects, or a chart's values, from a plan."""
