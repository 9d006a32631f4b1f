"""networks.py - the zoo: networks of torchvision, timm, transformers and own ones, a row each.

A network takes one tensor and returns one, as gtrain imports them. Images are as small as a network allows; batch norms see some pixels in
each channel all the same. Networks of texts are small, of two layers.
"""
from dataclasses import dataclass
from typing import Callable

import timm
import torch
import torch.nn as nn
import torchvision.models as tv
import transformers as hf

CLASSES = 10
TOKENS = 16  # of a text
VOCABULARY = 128
# A rounding error grows from step to step in a network of batch norms and ReLUs, and the faster it learns the faster.
SLOW = 1e-4


@dataclass
class Network:
    name: str
    make: Callable[[], nn.Module]
    sample: tuple | None  # shape of a sample; None: a text of TOKENS tokens
    # of the targets: "classes" (of a sample), "tokens" (a class for each token), "like" (numbers in the shape of the result)
    targets: str = "classes"
    classes: int = CLASSES
    batch: int = 4
    lr: float = 0.01


class Pick(nn.Module):
    """The result of a network without what is beside it."""

    def __init__(self, network, pick, **options):
        super().__init__()
        self.network, self.pick, self.options = network, pick, options

    def forward(self, x):
        return self.pick(self.network(x, **self.options))


class Translate(nn.Module):
    """An encoder and a decoder. The decoder reads the same text, one token later: labels of their own, not the same tensor twice."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids):
        return self.network(input_ids=ids, labels=ids.clone()).logits


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(VOCABULARY, 32), nn.LSTM(32, 64, 2, batch_first=True), nn.Linear(64, 5)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0][:, -1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.pool, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x):
        a = torch.relu(self.first(x))
        b = torch.relu(self.second(self.pool(a)))
        return self.last(torch.cat([a, self.up(b)], 1))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, 10), nn.Tanh(), nn.Linear(10, 3))
        self.decode = nn.Sequential(nn.Linear(3, 10), nn.LeakyReLU(), nn.Linear(10, 20), nn.Sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.encoder(x).mean(1))


def cnn1d():
    return nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8), nn.ELU(), nn.MaxPool1d(2), nn.Conv1d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.SiLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 2))


# ---- rows ----

def vision(name, size, batch=4, lr=SLOW, **options):
    if name in ("googlenet", "inception_v3"):
        options.update(aux_logits=False, init_weights=False)
    return Network("tv." + name, lambda: getattr(tv, name)(weights=None, num_classes=CLASSES, **options), (3, size, size), batch=batch, lr=lr)


def slim(name, batch, lr):
    """A network for images of one size, whose two hidden layers of 4096 features are the most of its weights: they get 64."""
    def make():
        network = getattr(tv, name)(weights=None, num_classes=CLASSES)
        before = None
        for i, layer in enumerate(network.classifier):
            if isinstance(layer, nn.Linear):
                network.classifier[i] = nn.Linear(before or layer.in_features, 64 if layer.out_features > CLASSES else CLASSES)
                before = 64
        return network

    return Network("tv." + name, make, (3, 224, 224), batch=batch, lr=lr)


def segmentation(name, function, size):
    return Network("tv." + name, lambda: Pick(function(weights=None, weights_backbone=None, num_classes=CLASSES), lambda y: y["out"]),
                   (3, size, size), "like", lr=SLOW)


def image(name, size, batch=4, lr=SLOW, **options):
    return Network("timm." + name, lambda: timm.create_model(name, num_classes=CLASSES, **options), (3, size, size), batch=batch, lr=lr)


def text(name, network, config, targets="tokens", classes=VOCABULARY, **options):
    def make():
        sizes = dict(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
        if name == "gpt2":
            sizes = dict(vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=64)
        if name == "distilbert":
            sizes = dict(vocab_size=VOCABULARY, dim=64, n_layers=2, n_heads=4, hidden_dim=128)
        written = network.__name__.endswith(("CausalLM", "LMHeadModel"))
        return Pick(network(config(**{**sizes, **options})), lambda y: y.logits, **(dict(use_cache=False) if written else {}))

    return Network("hf." + name, make, None, targets, classes)


def text_classes(name, network, config):
    return text(name, network, config, "classes", 2)


def hf_vit():
    return Pick(hf.ViTForImageClassification(hf.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32,
                                                          patch_size=8, num_labels=CLASSES)), lambda y: y.logits)


def t5():
    return Translate(hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                                                               decoder_start_token_id=0, use_cache=False)))


NETWORKS = [
    slim("alexnet", 4, 0.01),
    slim("vgg11_bn", 2, SLOW),
    vision("resnet18", 96),
    vision("resnext50_32x4d", 96),
    vision("densenet121", 96),
    vision("googlenet", 96),
    vision("inception_v3", 139),
    vision("mobilenet_v2", 96),
    vision("mobilenet_v3_small", 96),
    vision("squeezenet1_0", 96, lr=0.001),
    vision("shufflenet_v2_x0_5", 96),
    vision("mnasnet0_5", 96),
    vision("efficientnet_b0", 96),
    vision("efficientnet_v2_s", 96),
    vision("regnet_y_400mf", 96),
    vision("convnext_tiny", 96, lr=0.001),
    vision("swin_t", 224, batch=2, lr=0.001),  # windows of 7 x 7 tokens in stages of 56 to 7
    vision("vit_b_16", 64, lr=0.001, image_size=64),
    vision("maxvit_t", 224, batch=2),
    segmentation("fcn_resnet50", tv.segmentation.fcn_resnet50, 64),
    segmentation("deeplabv3_mobilenet", tv.segmentation.deeplabv3_mobilenet_v3_large, 64),
    image("resnet10t", 96),
    image("mixer_s16_224", 64, lr=0.01, img_size=64),
    image("deit_tiny_patch16_224", 64, img_size=64),
    image("eva02_tiny_patch14_224", 56, lr=0.01, img_size=56),
    image("convnextv2_atto", 96),
    image("efficientformer_l1", 224, batch=2),  # its last stage has 7 x 7 tokens
    image("mobilevit_xxs", 128),
    image("nf_regnet_b0", 96),
    image("poolformer_s12", 96),
    image("resmlp_12_224", 64, lr=0.01, img_size=64),
    image("cait_xxs24_224", 64, lr=0.001, img_size=64),
    image("mobilenetv4_conv_small", 96, lr=1e-5),
    image("fastvit_t8", 96),
    image("vit_small_patch14_dinov2", 56, lr=0.001, img_size=56),
    text("gpt2", hf.GPT2LMHeadModel, hf.GPT2Config),
    text("llama", hf.LlamaForCausalLM, hf.LlamaConfig),
    text("qwen2", hf.Qwen2ForCausalLM, hf.Qwen2Config, num_key_value_heads=2),
    text("qwen3", hf.Qwen3ForCausalLM, hf.Qwen3Config, head_dim=16, num_key_value_heads=2),
    text("mistral", hf.MistralForCausalLM, hf.MistralConfig, num_key_value_heads=2),
    text("gemma2", hf.Gemma2ForCausalLM, hf.Gemma2Config, head_dim=16),
    text("gemma3", hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, head_dim=16),
    text("phi3", hf.Phi3ForCausalLM, hf.Phi3Config, pad_token_id=0),
    text("gpt_neox", hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig),
    text("olmo2", hf.Olmo2ForCausalLM, hf.Olmo2Config, pad_token_id=0),
    text("smollm3", hf.SmolLM3ForCausalLM, hf.SmolLM3Config, pad_token_id=0),
    text("mixtral", hf.MixtralForCausalLM, hf.MixtralConfig, num_local_experts=4, num_key_value_heads=2),
    text_classes("bert", hf.BertForSequenceClassification, hf.BertConfig),
    text_classes("roberta", hf.RobertaForSequenceClassification, hf.RobertaConfig),
    text("modernbert", hf.ModernBertForMaskedLM, hf.ModernBertConfig, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
    text_classes("distilbert", hf.DistilBertForSequenceClassification, hf.DistilBertConfig),
    Network("hf.vit", hf_vit, (3, 32, 32)),
    Network("hf.t5", t5, None, "tokens", VOCABULARY),
    Network("own.lstm", LSTM, None, classes=5),
    Network("own.unet", UNet, (3, 32, 32), "like"),
    Network("own.autoencoder", Autoencoder, (20,), "like"),
    Network("own.transformer_encoder", Encoder, (7, 32), classes=3),
    Network("own.cnn1d", cnn1d, (1, 64), classes=2),
    Network("own.gru", lambda: Pick(nn.GRU(8, 16, batch_first=True), lambda y: y[0]), (7, 8), "like"),
]


# ---- small networks, which modes.py trains in every mode ----

class Sequences(nn.Module):
    """A recurrent network that reads a text and scores the next token."""

    def __init__(self, kind, width=24):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(VOCABULARY, 16), kind(16, width, 2, batch_first=True, dropout=0.1), nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


class Excited(nn.Module):
    """A block of a user's own: a residual branch with squeeze and excitation."""

    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.squeeze, self.excite = nn.Linear(width, width // 4), nn.Linear(width // 4, width)

    def forward(self, x):
        y = self.norm(self.conv(x))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3))))))
        return torch.relu(x + y * gate[:, :, None, None])


class Own(nn.Module):
    """A network of a user's own: blocks, and a GRU over the columns of the image, of `size` pixels."""

    def __init__(self, width=16, blocks=3, size=32):
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, width, 3, 2, 1), nn.Sequential(*[Excited(width) for _ in range(blocks)])
        self.rnn, self.head = nn.GRU(width * size // 2, 2 * width, batch_first=True), nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        x = self.blocks(self.stem(x)).permute(0, 3, 1, 2).flatten(2)
        return self.head(self.rnn(x)[0][:, -1])


def small_vit():
    return tv.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, dropout=0.1, num_classes=CLASSES)


def small_convnext():
    setting = tv.convnext.CNBlockConfig
    return tv.ConvNeXt([setting(16, 32, 2), setting(32, None, 2)], stochastic_depth_prob=0.1, num_classes=CLASSES)


def small_group_norm():
    return timm.models.resnet.ResNet(timm.models.resnet.BasicBlock, (1, 1, 1, 1), num_classes=CLASSES, channels=(32, 32, 64, 64),
                                     norm_layer=timm.layers.GroupNorm)


# A difference of a rounding stays one for some steps, so that curves can be compared to 1e-6.
SLOWEST = 5e-6
SMALL = [
    Network("resnet18", lambda: tv.resnet18(num_classes=CLASSES), (3, 64, 64), lr=SLOWEST),
    Network("mobilenet_v3_small", lambda: tv.mobilenet_v3_small(num_classes=CLASSES), (3, 64, 64), lr=SLOWEST),
    Network("densenet", lambda: tv.DenseNet(8, (2, 2, 2), 16, num_classes=CLASSES), (3, 32, 32), lr=SLOWEST),
    Network("vit", small_vit, (3, 32, 32)),
    Network("convnext", small_convnext, (3, 32, 32)),
    Network("resnet_gn", small_group_norm, (3, 32, 32), lr=SLOWEST),
    Network("own", Own, (3, 32, 32), lr=SLOWEST),
    text("gpt2", hf.GPT2LMHeadModel, hf.GPT2Config),
    text("llama", hf.LlamaForCausalLM, hf.LlamaConfig, num_key_value_heads=2),
    text("bert", hf.BertForMaskedLM, hf.BertConfig),
    Network("lstm", lambda: Sequences(nn.LSTM), None, "tokens", VOCABULARY),
    Network("gru", lambda: Sequences(nn.GRU), None, "tokens", VOCABULARY),
]


# ---- the same in a smaller size, for simulated GPUs: few channels, small images, one block per stage ----

def tiny_resnet(norm=nn.BatchNorm2d):
    block = tv.resnet.BasicBlock
    wider = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), norm(16))
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), norm(8), nn.ReLU(), nn.MaxPool2d(2), block(8, 8, norm_layer=norm),
                         block(8, 16, 2, wider, norm_layer=norm), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES))


def tiny_mobilenet_v3():
    block = tv.mobilenetv3.InvertedResidualConfig  # channels, kernel, expanded channels, result's channels, squeeze and excitation, activation, stride
    return tv.MobileNetV3([block(8, 3, 16, 8, True, "RE", 1, 1, 1), block(8, 5, 16, 16, True, "HS", 2, 1, 1)], 32, num_classes=CLASSES)


def tiny_vit():
    return tv.VisionTransformer(image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, dropout=0.1, num_classes=CLASSES)


def tiny_convnext():
    setting = tv.convnext.CNBlockConfig
    return tv.ConvNeXt([setting(8, 16, 1), setting(16, None, 1)], stochastic_depth_prob=0.1, num_classes=CLASSES)


def tiny_text(name, network, config, **options):
    sizes = dict(n_embd=16, n_head=2) if name == "gpt2" else dict(hidden_size=16, num_attention_heads=2, intermediate_size=32)
    return text(name, network, config, **sizes, **options)


TINY = [
    Network("resnet", tiny_resnet, (3, 16, 16), lr=SLOWEST),
    Network("mobilenet_v3", tiny_mobilenet_v3, (3, 16, 16), lr=SLOWEST),
    Network("densenet", lambda: tv.DenseNet(4, (1, 1), 8, num_classes=CLASSES), (3, 32, 32), lr=SLOWEST),
    Network("vit", tiny_vit, (3, 16, 16)),
    Network("convnext", tiny_convnext, (3, 16, 16)),
    Network("resnet_gn", lambda: tiny_resnet(lambda channels: nn.GroupNorm(2, channels)), (3, 16, 16), lr=SLOWEST),
    Network("own", lambda: Own(8, 2, 16), (3, 16, 16), lr=SLOWEST),
    tiny_text("gpt2", hf.GPT2LMHeadModel, hf.GPT2Config),
    tiny_text("llama", hf.LlamaForCausalLM, hf.LlamaConfig, num_key_value_heads=1),
    tiny_text("bert", hf.BertForMaskedLM, hf.BertConfig),
    Network("lstm", lambda: Sequences(nn.LSTM, 16), None, "tokens", VOCABULARY),
    Network("gru", lambda: Sequences(nn.GRU, 16), None, "tokens", VOCABULARY),
]
